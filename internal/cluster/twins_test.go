package cluster

import (
	"net"
	"net/netip"
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
		"both at one address":      {[]sight{{0, 2, 1, "a"}, {1, 2, 2, "a"}, {2, 2, 1, "a"}}, 3, []string{"a", "a"}, true},
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
			w.met(&link.Hello{Identity: link.Identity{Node: s.node, Member: 9, Address: s.address}, Process: s.process}, nil, at(s.after))
		}
		var want []view.Twins
		if x.want != nil {
			want = []view.Twins{{Broker: x.sights[0].node, Copies: x.copies}}
			for _, a := range x.want {
				want[0].Processes = append(want[0].Processes, view.Process{Address: a})
			}
		}
		same := func(a, b view.Twins) bool {
			return a.Broker == b.Broker && a.Copies == b.Copies && slices.EqualFunc(a.Processes, b.Processes,
				func(x, y view.Process) bool { return x.Address == y.Address })
		}
		if got := w.known(at(x.at), -1); !slices.EqualFunc(got, want, same) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// Of each process it is known from which host it connects, since when, and whether another one has
// a newer registration. One of which first only the address was known is not counted twice.
func TestWhatIsKnownOfProcesses(t *testing.T) {
	w := newTwins(membership.Member{Node: 1, ID: 9, Address: "own"})
	began := w.of[1][0].first
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	meet := func(s int, number uint64, epoch int64, from string) {
		h := &link.Hello{Identity: link.Identity{Node: 1, Member: 9, Address: "own", BrokerEpoch: epoch}, Process: number}
		var addr net.Addr
		if from != "" {
			addr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))
		}
		w.met(h, addr, at(s))
	}
	meet(1, 0, -1, "") // this one was refused because of the other one
	meet(2, 7, 6, "10.0.0.2:3000")
	meet(3, 0, -1, "")
	meet(4, 7, 6, "10.0.0.2:3001")
	for own, newest := range map[int64]int{5: 1, -1: 1, 6: -1, 7: 0} {
		got := w.known(at(4), own)
		want := []view.Process{{Address: "own", Since: began.UTC()}, {Address: "own", Host: "10.0.0.2", Since: at(2).UTC()}}
		if newest >= 0 {
			want[newest].Registered = true
		}
		if len(got) != 1 || !slices.Equal(got[0].Processes, want) {
			t.Errorf("own epoch %d: %+v, want %+v", own, got, want)
		}
	}
}

// What is remembered is bounded, and a process with another data directory is no copy.
func TestProcessesAreForgotten(t *testing.T) {
	w, now := newTwins(membership.Member{Node: 1, ID: 9}), time.Now()
	for i := range 2 * mostTwins {
		w.met(&link.Hello{Identity: link.Identity{Node: int32(i)}, Process: uint64(i)}, nil, now)
		w.met(&link.Hello{Identity: link.Identity{Node: 2}, Process: uint64(i)}, nil, now)
	}
	if len(w.of) != mostTwins || len(w.of[2]) != mostProcesses {
		t.Errorf("%d brokers and %d processes are remembered", len(w.of), len(w.of[2]))
	}
	now = now.Add(twinsFor)
	w.met(&link.Hello{Identity: link.Identity{Node: 3, Member: 5}, Process: 4}, nil, now)
	if len(w.of) != 2 {
		t.Errorf("%d brokers are remembered", len(w.of))
	}
	w.met(&link.Hello{Identity: link.Identity{Node: 3, Member: 6}, Process: 5}, nil, now)
	w.met(&link.Hello{Identity: link.Identity{Node: 3, Member: 5}, Process: 4}, nil, now.Add(2*time.Second))
	if got := w.known(now.Add(2*time.Second), -1); len(got) != 1 || got[0].Copies {
		t.Errorf("%+v", got)
	}
}
