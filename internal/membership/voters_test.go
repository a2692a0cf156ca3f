package membership

import (
	"reflect"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
)

func TestNextChange(t *testing.T) {
	voter := func(id uint64) GroupMember {
		return GroupMember{ID: id, Voter: true, Active: true, Registered: true, WantsVote: true, Agrees: true}
	}
	learner := func(id uint64) GroupMember {
		return GroupMember{ID: id, Active: true, Registered: true, WantsVote: true, Agrees: true}
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
		{"growth", []GroupMember{voter(1), learner(3), learner(2)}, voters(1, 2, 3)},
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
			with(learner(4), func(m *GroupMember) { m.Active = false }),
			with(learner(5), func(m *GroupMember) { m.WantsVote = false })}, Change{}},
		{"another broker gets it after a while", []GroupMember{voter(1), voter(2), for2s(silent(voter(3))), learner(4)}, Change{}},
		{"two lost directories",
			[]GroupMember{voter(1), voter(2), voter(6), succeeded(silent(voter(3)), 4), succeeded(silent(voter(7)), 5),
				with(learner(4), func(m *GroupMember) { m.Active = false }), learner(5)}, replace(7, 5)},
		{"a voter that is down keeps its vote",
			[]GroupMember{voter(1), voter(2), with(voter(3), func(m *GroupMember) { m.Active = false }),
				learner(4)}, Change{}},
		{"a voter that has not registered yet keeps its vote",
			[]GroupMember{voter(1), voter(2), with(voter(3), func(m *GroupMember) { m.Registered = false }), learner(4)}, Change{}},
		{"no member to replace it", []GroupMember{voter(1), voter(2), silent(voter(3))}, Change{}},
		{"a former learner", []GroupMember{voter(1), silent(learner(2))}, Change{Remove: 2}},
		{"a learner that joins",
			[]GroupMember{voter(1), with(silent(learner(2)), func(m *GroupMember) { m.Silent = time.Second })}, Change{}},
	} {
		got := NextChange(x.members, 3)
		if got.Waits = ""; !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %+v, want %+v", x.name, got, x.want)
		}
	}
}

// The voters become the brokers of the list when all of them, and all other voters that run, have
// that list.
func TestVotersFollowTheSeeds(t *testing.T) {
	in := func(id uint64) GroupMember {
		return GroupMember{ID: id, Active: true, Registered: true, WantsVote: true, Agrees: true}
	}
	voter := func(m GroupMember) GroupMember { m.Voter = true; return m }
	out := func(m GroupMember) GroupMember { m.WantsVote = false; return m }
	old := func(m GroupMember) GroupMember { m.Agrees, m.Differs = false, true; return m }
	unknown := func(m GroupMember) GroupMember { m.Agrees, m.WantsVote = false, false; return m }
	down := func(m GroupMember, since time.Duration) GroupMember {
		m.Active, m.Silent = false, since
		return m
	}
	leads := func(m GroupMember) GroupMember { m.Leader = true; return m }
	for _, x := range []struct {
		name    string
		seeds   int
		members []GroupMember
		want    Change
	}{
		{"five to three", 3,
			[]GroupMember{leads(voter(in(1))), voter(in(2)), voter(in(3)), out(voter(in(4))), out(voter(in(5)))}, voters(1, 2, 3)},
		{"the two are stopped", 3, []GroupMember{leads(voter(in(1))), voter(in(2)), voter(in(3)), unknown(down(voter(in(4)), time.Hour)),
			unknown(down(voter(in(5)), replaceAfter))}, voters(1, 2, 3)},
		{"one of them was stopped a moment ago", 3, []GroupMember{leads(voter(in(1))), voter(in(2)), voter(in(3)), out(voter(in(4))),
			unknown(down(voter(in(5)), time.Second))}, Change{}},
		{"one of them has the former list", 3,
			[]GroupMember{leads(voter(in(1))), voter(in(2)), voter(in(3)), out(voter(in(4))), old(voter(in(5)))},
			Change{Waits: "brokers have different cluster.seeds; set the same list on all of them", Differ: []uint64{5}}},
		{"one of the three has the former list", 3,
			[]GroupMember{leads(voter(in(1))), voter(in(2)), old(voter(in(3))), out(voter(in(4))), out(voter(in(5)))},
			Change{Waits: "brokers have different cluster.seeds; set the same list on all of them", Differ: []uint64{3}}},
		{"one of the three is down", 3,
			[]GroupMember{leads(voter(in(1))), voter(in(2)), unknown(down(voter(in(3)), time.Hour)), out(voter(in(4))),
				out(voter(in(5)))}, Change{Waits: "not all brokers of cluster.seeds answer"}},
		{"one of three is down, and the list is as before", 3,
			[]GroupMember{leads(voter(in(1))), voter(in(2)), unknown(down(voter(in(3)), time.Hour))}, Change{}},
		{"the leader has not heard of one of them yet", 3,
			[]GroupMember{leads(voter(in(1))), voter(in(2)), voter(in(3)), unknown(voter(in(4))),
				out(voter(in(5)))}, Change{}},
		{"only the leader has a new list, with itself alone", 1, []GroupMember{leads(voter(in(1))), old(voter(in(2))), old(voter(in(3)))},
			Change{Waits: "brokers have different cluster.seeds; set the same list on all of them", Differ: []uint64{2, 3}}},
		{"a leader with the former list", 5,
			[]GroupMember{old(voter(in(1))), old(voter(in(2))), old(voter(in(3))), leads(voter(in(4))), voter(in(5))},
			Change{Waits: "brokers have different cluster.seeds; set the same list on all of them", Differ: []uint64{1, 2, 3}}},
		{"a leader that leaves", 3, []GroupMember{voter(in(1)), voter(in(2)), voter(in(3)), out(voter(in(4))), leads(out(voter(in(5))))},
			Change{Resign: []uint64{1, 2, 3}}},
		{"a leader that leaves, and another one", 3,
			[]GroupMember{out(voter(in(1))), leads(out(voter(in(2)))), voter(in(3)), in(4), in(5)}, Change{Resign: []uint64{3}}},
		{"all leave", 3,
			[]GroupMember{out(voter(in(1))), out(voter(in(2))), leads(out(voter(in(3)))), in(4), in(5), in(6)},
			Change{Waits: "no broker with a vote is in cluster.seeds; change the list in two steps"}},
		{"the only voter leaves", 1, []GroupMember{leads(out(voter(in(1)))), in(2)},
			Change{Waits: "no broker with a vote is in cluster.seeds; change the list in two steps"}},
		{"a replaced seed", 3, []GroupMember{leads(voter(in(1))), voter(in(2)), out(voter(in(3))), in(4)}, voters(1, 2, 4)},
		{"a replaced seed that is stopped", 3,
			[]GroupMember{leads(voter(in(1))), voter(in(2)), unknown(down(voter(in(3)), time.Hour)), in(4)},
			voters(1, 2, 4)},
		{"a replaced seed whose broker was unregistered", 3, []GroupMember{leads(voter(in(1))), voter(in(2)),
			{ID: 3, Voter: true, Silent: time.Hour}, in(4)}, func() (c Change) { c.Replace.Former, c.Replace.Learner = 3, 4; return c }()},
		{"five to three, two brokers unregistered, another one is no seed", 3,
			[]GroupMember{leads(voter(in(1))), voter(in(2)), voter(in(3)),
				{ID: 4, Voter: true, Silent: time.Hour}, {ID: 5, Voter: true, Silent: time.Hour}, out(in(6))}, voters(1, 2, 3)},
		{"the new seed is not there", 3, []GroupMember{leads(voter(in(1))), voter(in(2)), out(voter(in(3)))},
			Change{Waits: "not all brokers of cluster.seeds answer"}},
		{"three to one", 1, []GroupMember{leads(voter(in(1))), out(voter(in(2))), out(voter(in(3)))}, voters(1)},
		{"three to five", 5, []GroupMember{leads(voter(in(1))), voter(in(2)), voter(in(3)), in(4), in(5)}, voters(1, 2, 3, 4, 5)},
		{"two to many", 4, []GroupMember{leads(voter(in(1))), voter(in(2)), voter(in(3)), in(4)},
			Change{Waits: "cluster.seeds must name 1, 3 or 5 brokers, each once"}},
		{"a voter that restarts", 3,
			[]GroupMember{leads(voter(in(1))), voter(in(2)), unknown(down(voter(in(3)), time.Second))}, Change{}},
	} {
		if got := NextChange(x.members, x.seeds); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %+v, want %+v", x.name, got, x.want)
		}
	}
}

func voters(ids ...uint64) Change { return Change{Voters: ids} }

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
