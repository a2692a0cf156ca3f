package observe

import (
	"errors"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/view"
)

// turnsFor is how long it remains known that processes have registered by turns. One of them may
// have ended for good, and what is left may be the wrong one.
const turnsFor = 10 * time.Minute

// mostProcesses is how many processes of a broker are remembered.
const mostProcesses = 8

// processes are those that have registered as one broker, since this process follows the metadata.
type processes struct {
	seen    []process // the newest last, each once
	turns   view.Turns
	noted   time.Time   // when a process was last noted that registers, or asks to, by turns
	refused metadata.ID // the process that was refused since the newest one has registered
}

type process struct {
	incarnation metadata.ID
	address     string
	at          time.Time // of its registration
}

// newProcess returns a process that registers now.
func newProcess(incarnation metadata.ID, listeners []metadata.Endpoint) process {
	x := process{incarnation: incarnation, at: time.Now()}
	if len(listeners) > 0 {
		x.address = address(listeners[0].Host, listeners[0].Port)
	}
	return x
}

// register notes the registration of an image. It reports whether the process had registered
// before another one.
func (x *processes) register(b *metadata.Broker) (again bool) {
	n := len(x.seen)
	if n > 0 && x.seen[n-1].incarnation == b.Incarnation {
		return false
	}
	now := newProcess(b.Incarnation, b.Listeners)
	x.refused = metadata.ID{}
	i := slices.IndexFunc(x.seen, func(p process) bool { return p.incarnation == b.Incarnation })
	if again = i >= 0; again {
		x.turns = view.Turns{Broker: b.ID, At: now.at, Addresses: [2]string{now.address, x.seen[n-1].address}}
		x.noted = now.at
		x.seen = slices.Delete(x.seen, i, i+1)
	}
	if x.seen = append(x.seen, now); len(x.seen) > mostProcesses {
		x.seen = x.seen[1:]
	}
	return again
}

// stale notes that the registration of a process was refused, because another one has registered
// since its metadata were current. Two processes on copies of one directory never get further: each
// ends the connections of the other one, so that its metadata stand still. One refusal may be that
// of a request which was under way when its process ended.
func (x *processes) stale(broker int32, asks process) {
	n := len(x.seen)
	i := slices.IndexFunc(x.seen, func(p process) bool { return p.incarnation == asks.incarnation })
	if i < 0 || i == n-1 {
		return // a process that starts, and has yet to learn of the one before it
	}
	if x.refused != asks.incarnation {
		x.refused = asks.incarnation
		return
	}
	last := &x.seen[n-1]
	x.turns = view.Turns{Broker: broker, At: last.at, Addresses: [2]string{last.address, asks.address}}
	x.noted = asks.at
}

// Stale notes a registration that the controller on this node refuses, because another process has
// registered with its node.id.
func (c *Cluster) Stale(broker int32, incarnation metadata.ID, listeners []metadata.Endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.processes[broker]; x != nil {
		x.stale(broker, newProcess(incarnation, listeners))
	}
}

// registrations notes the processes that are registered.
func (c *Cluster) registrations(next *metadata.Image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.processes == nil {
		c.processes = map[int32]*processes{}
	}
	for _, b := range next.Brokers() {
		x := c.processes[b.ID]
		if x == nil {
			x = &processes{}
			c.processes[b.ID] = x
		}
		x.register(&b)
	}
}

// turns adds the brokers as which processes have registered by turns. The caller has the lock.
func (c *Cluster) turns(img *metadata.Image, x *view.Cluster, now time.Time) {
	for _, b := range img.Brokers() {
		if p := c.processes[b.ID]; p != nil && !p.noted.IsZero() && now.Sub(p.noted) < turnsFor {
			x.Turns = append(x.Turns, p.turns)
		}
	}
}

// Lacking returns the parts of the broker that do not follow the metadata.
func Lacking(a *metadata.Applier) (list []checks.Lacking) {
	for _, l := range a.Lacking() {
		list = append(list, checks.Lacking{Part: l.Part, Since: l.Since, Error: l.Err.Error(),
			Replaced: errors.Is(l.Err, replica.ErrReplaced)})
	}
	return list
}
