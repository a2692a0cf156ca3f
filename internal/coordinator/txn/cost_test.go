package txn

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// everything is metadata in which every partition exists.
type everything struct{}

func (everything) Exists(Partition) bool { return true }
func (everything) Weak(string) bool      { return false }

func (everything) Epochs(Partition) (leader, lossy int32) { return 1, 0 }
func (everything) ID(string) [16]byte                     { return [16]byte{1} }

// benchDesk drives a Shard as the runtime does, and answers its requests at once.
type benchDesk struct {
	s   *Shard
	now time.Time
	out coordinator.Effects
}

func newBenchDesk() *benchDesk {
	cfg := DefaultConfig()
	last := int64(0)
	cfg.ProducerID = func(context.Context) (int64, error) { last++; return last, nil }
	d := &benchDesk{s: New(cfg), now: time.UnixMilli(1_700_000_000_000)}
	d.s.Loaded(d.now, 1, &coordinator.Effects{})
	d.handle(0, TopicsChanged{Topics: everything{}, Tagged: true})
	return d
}

// handle hands an event to the Shard, and then those that follow from it. It returns the response
// to the ticket.
func (d *benchDesk) handle(to coordinator.Ticket, event any) (response any) {
	type step struct {
		to    coordinator.Ticket
		event any
	}
	for queue := []step{{to, event}}; len(queue) > 0; queue = queue[1:] {
		d.out = coordinator.Effects{}
		d.s.Handle(d.now, queue[0].to, queue[0].event, &d.out)
		for _, r := range d.out.Replies {
			response = r.Response
		}
		for _, c := range d.out.Calls {
			queue = append(queue, step{c.To, c.Do(context.Background())})
		}
		for _, m := range d.out.Sends {
			queue = append(queue, step{0, Marked{WriteMarker: m.(WriteMarker)}})
		}
		for _, e := range d.out.Deferred {
			queue = append(queue, step{0, e})
		}
	}
	return response
}

// A transactional id without a transaction costs little memory: a broker may have a million.
func TestMemoryOfAnID(t *testing.T) {
	const count = 100_000
	d := newBenchDesk()
	d.s.cfg.MaxIDs = count
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range count {
		d.handle(1, InitProducerID{ID: fmt.Sprintf("application-%08d", i), Timeout: 60_000, ProducerID: none, Epoch: none})
	}
	d.out = coordinator.Effects{}
	runtime.GC()
	runtime.ReadMemStats(&after)
	n := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / count
	t.Logf("%d bytes for each id", n)
	if n > 250 {
		t.Errorf("%d bytes for each id", n)
	}
	runtime.KeepAlive(d)
}
