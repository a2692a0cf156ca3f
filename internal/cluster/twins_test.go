package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/view"
)

// Two processes that run with one node.id are known as long as both are met, and for some seconds
// after. A process that starts again is another one, and its predecessor is over.
func TestProcessesThatRunAtTheSameTime(t *testing.T) {
	type sight struct {
		after   float64 // the begin, in seconds
		node    int32
		process uint64
		address string
	}
	for name, x := range map[string]struct {
		sights []sight
		at     float64
		want   []string // addresses
		copies bool
	}{
		"restarts":                 {[]sight{{0, 2, 1, "a"}, {0.9, 2, 1, "a"}, {1, 2, 2, "a"}, {4.5, 2, 3, "a"}}, 6, nil, false},
		"a late handshake":         {[]sight{{0, 2, 1, "a"}, {1, 2, 2, "a"}, {1.9, 2, 1, "a"}, {5, 2, 2, "a"}}, 6, nil, false},
		"at another address":       {[]sight{{0, 2, 1, "a"}, {1, 2, 2, "b"}, {5, 2, 2, "b"}}, 6, nil, false},
		"by turns":                 {[]sight{{0, 2, 1, "b"}, {1, 2, 2, "a"}, {2, 2, 1, "b"}, {3, 2, 2, "a"}}, 3, []string{"a", "b"}, true},
		"for some seconds":         {[]sight{{0, 2, 1, "b"}, {1, 2, 2, "a"}, {2, 2, 1, "b"}, {9, 2, 2, "a"}}, 11, []string{"a", "b"}, true},
		"one has ended":            {[]sight{{0, 2, 1, "b"}, {1, 2, 2, "a"}, {2, 2, 1, "b"}, {9, 2, 2, "a"}}, 12, nil, false},
		"both at one address":      {[]sight{{0, 2, 1, "a"}, {1, 2, 2, "a"}, {2, 2, 1, "a"}}, 3, []string{"a"}, true},
		"of an earlier version":    {[]sight{{0, 2, 1, "a"}, {1, 2, 2, ""}, {2, 2, 1, "a"}}, 3, []string{"", "a"}, true},
		"two that start again":     {[]sight{{0, 2, 1, "a"}, {1, 2, 2, "b"}, {2, 2, 3, "a"}, {4, 2, 2, "b"}}, 5, []string{"a", "b"}, true},
		"this one and a copy":      {[]sight{{3, 1, 7, "b"}}, 4, []string{"b", "own"}, true},
		"a copy that was just met": {[]sight{{3, 1, 7, "b"}}, 3.9, nil, false},
		"it replaces the other":    {[]sight{{0.5, 1, 7, "b"}}, 1, nil, false},
		"refused because of it":    {[]sight{{1, 1, 0, "b"}, {2, 1, 0, "b"}}, 3, []string{"b", "own"}, true},
	} {
		w := newTwins(membership.Member{Node: 1, ID: 9, Address: "own"})
		began := w.of[1][0].first
		at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
		for _, s := range x.sights {
			w.met(&link.Hello{Identity: link.Identity{Node: s.node, Member: 9, Address: s.address}, Process: s.process}, at(s.after))
		}
		var want []view.Twins
		if x.want != nil {
			want = []view.Twins{{Broker: x.sights[0].node, Addresses: x.want, Copies: x.copies}}
		}
		same := func(a, b view.Twins) bool {
			return a.Broker == b.Broker && a.Copies == b.Copies && slices.Equal(a.Addresses, b.Addresses)
		}
		if got := w.known(at(x.at)); !slices.EqualFunc(got, want, same) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// What is remembered is bounded, and a process with another data directory is no copy.
func TestProcessesAreForgotten(t *testing.T) {
	w, now := newTwins(membership.Member{Node: 1, ID: 9}), time.Now()
	for i := range 2 * mostTwins {
		w.met(&link.Hello{Identity: link.Identity{Node: int32(i)}, Process: uint64(i)}, now)
		w.met(&link.Hello{Identity: link.Identity{Node: 2}, Process: uint64(i)}, now)
	}
	if len(w.of) != mostTwins || len(w.of[2]) != mostProcesses {
		t.Errorf("%d brokers and %d processes are remembered", len(w.of), len(w.of[2]))
	}
	now = now.Add(twinsFor)
	w.met(&link.Hello{Identity: link.Identity{Node: 3, Member: 5}, Process: 4}, now)
	if len(w.of) != 2 {
		t.Errorf("%d brokers are remembered", len(w.of))
	}
	w.met(&link.Hello{Identity: link.Identity{Node: 3, Member: 6}, Process: 5}, now)
	w.met(&link.Hello{Identity: link.Identity{Node: 3, Member: 5}, Process: 4}, now.Add(2*time.Second))
	if got := w.known(now.Add(2 * time.Second)); len(got) != 1 || got[0].Copies {
		t.Errorf("%+v", got)
	}
}
