package cluster

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

const (
	// twinsFor is how long a process counts as running after it was last met. One whose connections
	// another process ends, or which is refused, dials again within a second or two.
	twinsFor = 10 * time.Second
	// overlap is how long a process must have been met after another one first was: the last
	// handshake of a process that has ended may be noted late.
	overlap = time.Second
	// mostProcesses bounds the processes of a broker that are known, and mostTwins the brokers.
	mostProcesses, mostTwins = 8, 1000
)

// twins knows the processes that run as each broker, from the handshakes of links: each process
// dials all other brokers, and again when that is refused, whichever of them is registered. So each
// broker knows what runs twice, without the metadata. Two processes of one broker run at the same
// time if the older one is met after the newer one began: a process that restarts is another one,
// and its predecessor is not met any more.
type twins struct {
	mu sync.Mutex
	of map[int32][]process // by node
}

// process is a process that was met.
type process struct {
	number      uint64 // link.Hello.Process; 0 if only the address is known
	member      uint64
	itself      bool // this process
	address     string
	host        string    // from which it connects; empty if that is not known
	epoch       int64     // of its registration, -1 if none is known
	first, last time.Time // when it was met
}

// newTwins knows of this process only, which begins now.
func newTwins(own membership.Member) *twins {
	return &twins{of: map[int32][]process{own.Node: {
		{itself: true, member: own.ID, address: own.Address, epoch: -1, first: time.Now()},
	}}}
}

// met notes that a process ran at a time. from is the other end of its connection, nil if it has
// none with this broker.
func (t *twins) met(peer *link.Hello, from net.Addr, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, list := range t.of {
		if list = slices.DeleteFunc(list, func(p process) bool { return p.over(at) }); len(list) == 0 {
			delete(t.of, id)
		} else {
			t.of[id] = list
		}
	}
	list, host := t.of[peer.Node], ""
	if from != nil {
		host, _, _ = net.SplitHostPort(from.String()) // empty if it has no port
	}
	i := slices.IndexFunc(list, func(p process) bool {
		return !p.itself && p.number == peer.Process && (p.number != 0 || p.address == peer.Address)
	})
	switch {
	case i >= 0:
		if p := &list[i]; at.After(p.last) {
			p.last, p.address, p.host = at, cmp.Or(peer.Address, p.address), cmp.Or(host, p.host)
			p.epoch = max(p.epoch, peer.BrokerEpoch)
		}
	case len(list) < mostProcesses && (len(list) > 0 || len(t.of) < mostTwins):
		t.of[peer.Node] = append(list, process{number: peer.Process, member: peer.Member, address: peer.Address, host: host,
			epoch: peer.BrokerEpoch, first: at, last: at})
	}
}

// over reports whether a process no longer counts as running.
func (p *process) over(now time.Time) bool { return !p.itself && now.Sub(p.last) >= twinsFor }

// outlives reports whether a process ran when a newer one had begun.
func (p *process) outlives(newer *process, now time.Time) bool {
	last := p.last
	if p.itself {
		last = now
	}
	return !newer.first.Before(p.first) && last.Sub(newer.first) >= overlap
}

// known returns the brokers as which several processes run, by id. epoch is that of this process,
// -1 if it is not registered.
func (t *twins) known(now time.Time, epoch int64) (list []view.Twins) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(t.of)) {
		all := slices.DeleteFunc(slices.Clone(t.of[node]), func(p process) bool { return p.over(now) })
		x, twin := view.Twins{Broker: node}, map[int]bool{}
		for i := range all {
			for k := range all {
				if i != k && all[i].outlives(&all[k], now) {
					twin[i], twin[k] = true, true
					x.Copies = x.Copies || all[i].member == all[k].member
				}
			}
			if all[i].itself {
				all[i].epoch = epoch
			}
		}
		if len(twin) == 0 {
			continue
		}
		for i := range all {
			if twin[i] && !all[i].again(all) {
				x.Processes = append(x.Processes, all[i].view(all))
			}
		}
		sorts.Sort(x.Processes, func(x, y view.Process) int {
			return cmp.Or(cmp.Compare(x.Address, y.Address), cmp.Compare(x.Host, y.Host), x.Since.Compare(y.Since))
		})
		list = append(list, x)
	}
	return list
}

// view describes a process of all that run as its broker.
func (p *process) view(all []process) view.Process {
	newest := p.epoch >= 0
	for i := range all {
		newest = newest && (p == &all[i] || all[i].epoch < p.epoch)
	}
	return view.Process{Address: p.address, Host: p.host, Since: p.first.UTC(), Registered: newest}
}

// again reports whether only the address of a process is known, and one of all that were met has
// it.
func (p *process) again(all []process) bool {
	return !p.itself && p.number == 0 && slices.ContainsFunc(all, func(x process) bool { return x.number != 0 && x.address == p.address })
}

// met notes a process of this cluster that is at the other end of a link.
func (c *Cluster) met(peer link.Hello, from net.Addr, at time.Time) {
	own := c.identity()
	other := own.ClusterName != peer.ClusterName ||
		own.ClusterID != "" && peer.ClusterID != "" && (own.ClusterID != peer.ClusterID || own.Generation != peer.Generation)
	if !other {
		c.twins.met(&peer, from, at)
	}
}

// Twins returns the brokers as which several processes run, by id. It does not block.
func (c *Cluster) Twins(now time.Time) []view.Twins {
	return c.twins.known(now, c.identity().BrokerEpoch)
}
