package membership

import (
	"reflect"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
)

func TestNextChange(t *testing.T) {
	voter := func(id uint64) GroupMember {
		return GroupMember{ID: id, Voter: true, Active: true, Registered: true, WantsVote: true}
	}
	learner := func(id uint64) GroupMember {
		return GroupMember{ID: id, Active: true, Registered: true, WantsVote: true}
	}
	with := func(m GroupMember, f func(*GroupMember)) GroupMember { f(&m); return m }
	silent := func(m GroupMember) GroupMember {
		return with(m, func(m *GroupMember) { m.Active, m.Silent, m.Registered = false, 2*time.Minute, false })
	}
	succeeded := func(m GroupMember, by uint64) GroupMember { m.Successor = by; return m }
	for2s := func(m GroupMember) GroupMember { m.Silent = 2 * time.Second; return m }
	replace := func(former, learner uint64) (c Change) {
		c.Replace.Former, c.Replace.Learner = former, learner
		return c
	}
	for _, x := range []struct {
		name    string
		members []GroupMember
		want    Change
	}{
		{"nothing to do", []GroupMember{voter(1), voter(2), voter(3)}, Change{}},
		{"a broker that is no seed",
			[]GroupMember{voter(1), voter(2), voter(3), with(learner(4), func(m *GroupMember) { m.WantsVote = false })}, Change{}},
		{"a seed too many", []GroupMember{voter(1), voter(2), voter(3), learner(4)}, Change{}},
		{"growth", []GroupMember{voter(1), learner(3), learner(2)}, Change{Promote: []uint64{2, 3}}},
		{"growth waits for the second seed", []GroupMember{voter(1), learner(2)}, Change{}},
		{"growth waits for the second seed's registration",
			[]GroupMember{voter(1), learner(2), with(learner(3), func(m *GroupMember) { m.Registered = false })}, Change{}},
		{"a lost directory", []GroupMember{voter(1), voter(2), silent(voter(3)), learner(4)}, replace(3, 4)},
		{"its broker gets the vote, not another one",
			[]GroupMember{voter(1), voter(2), succeeded(silent(voter(3)), 5), learner(4), learner(5)}, replace(3, 5)},
		{"at once", []GroupMember{voter(1), voter(2), for2s(succeeded(silent(voter(3)), 4)), learner(4)}, replace(3, 4)},
		{"wherever its broker is now", []GroupMember{voter(1), voter(2), succeeded(silent(voter(3)), 4),
			with(learner(4), func(m *GroupMember) { m.WantsVote = false })}, replace(3, 4)},
		{"not while the former directory answers", []GroupMember{voter(1), voter(2), with(succeeded(silent(voter(3)), 4),
			func(m *GroupMember) { m.Active, m.Silent = true, 0 }), learner(4)}, Change{}},
		{"another broker does not get it while its own restarts", []GroupMember{voter(1), voter(2), succeeded(silent(voter(3)), 4),
			with(learner(4), func(m *GroupMember) { m.Active = false }), learner(5)}, Change{}},
		{"another broker gets it after a while", []GroupMember{voter(1), voter(2), for2s(silent(voter(3))), learner(4)}, Change{}},
		{"two lost directories", []GroupMember{voter(1), voter(2), voter(6), succeeded(silent(voter(3)), 4), succeeded(silent(voter(7)), 5),
			with(learner(4), func(m *GroupMember) { m.Active = false }), learner(5)}, replace(7, 5)},
		{"a voter that is down keeps its vote", []GroupMember{voter(1), voter(2), with(voter(3), func(m *GroupMember) { m.Active = false }),
			learner(4)}, Change{}},
		{"a voter that has not registered yet keeps its vote",
			[]GroupMember{voter(1), voter(2), with(voter(3), func(m *GroupMember) { m.Registered = false }), learner(4)}, Change{}},
		{"no member to replace it", []GroupMember{voter(1), voter(2), silent(voter(3))}, Change{}},
		{"a former learner", []GroupMember{voter(1), silent(learner(2))}, Change{Remove: 2}},
		{"a learner that joins",
			[]GroupMember{voter(1), with(silent(learner(2)), func(m *GroupMember) { m.Silent = time.Second })}, Change{}},
	} {
		if got := NextChange(x.members, 3); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %+v, want %+v", x.name, got, x.want)
		}
	}
}

func TestLostVote(t *testing.T) {
	b := &metadata.Broker{Member: 5, Former: []uint64{4, 3}}
	for _, x := range []struct {
		voters []uint64
		want   uint64
	}{{[]uint64{1, 2, 5}, 0}, {[]uint64{1, 2, 3}, 3}, {[]uint64{1, 2, 4}, 4}, {[]uint64{1, 2, 6}, 0}, {[]uint64{1, 2, 5, 1, 2, 4}, 4}} {
		if got := LostVote(b, x.voters); got != x.want {
			t.Errorf("voters %d: %d, want %d", x.voters, got, x.want)
		}
	}
}
