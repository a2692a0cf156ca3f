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
	seen  []process // the newest last, each once
	turns view.Turns
}

type process struct {
	incarnation metadata.ID
	address     string
}

// register notes the registration of an image. It reports whether the process had registered
// before another one.
func (x *processes) register(b *metadata.Broker) (again bool) {
	n := len(x.seen)
	if n > 0 && x.seen[n-1].incarnation == b.Incarnation {
		return false
	}
	now := process{incarnation: b.Incarnation}
	if len(b.Listeners) > 0 {
		now.address = address(b.Listeners[0].Host, b.Listeners[0].Port)
	}
	i := slices.IndexFunc(x.seen, func(p process) bool { return p.incarnation == b.Incarnation })
	if again = i >= 0; again {
		x.turns = view.Turns{Broker: b.ID, At: time.Now(), Addresses: [2]string{now.address, x.seen[n-1].address}}
		x.seen = slices.Delete(x.seen, i, i+1)
	}
	if x.seen = append(x.seen, now); len(x.seen) > mostProcesses {
		x.seen = x.seen[1:]
	}
	return again
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
		if p := c.processes[b.ID]; p != nil && !p.turns.At.IsZero() && now.Sub(p.turns.At) < turnsFor {
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
