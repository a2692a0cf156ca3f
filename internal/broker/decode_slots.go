package broker

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/network"
)

// A request with a body larger than largeBody takes a slot, and so does one whose answer lists more
// than manyEntries topics or partitions that it does not name. A request at these limits takes a
// few ms; one that names a hundred thousand partitions takes a hundred.
const (
	largeBody   = 64 << 10
	manyEntries = 2000
)

// slotTime bounds how long a request holds a slot. No request computes for so long, and a request
// that waits for a disk or for other members must not delay others.
const slotTime = time.Second

// decodeSlots are held by large requests, so that they leave half of the processors to small ones.
// Small requests take microseconds, but would wait up to 10 ms for a processor at each step: that
// is how long Go's scheduler lets a goroutine compute. The slots also bound the large answers that
// clients have not read: there is at most one for each slot beyond the network's bound.
type decodeSlots chan struct{}

func newDecodeSlots() decodeSlots { return make(decodeSlots, max(1, runtime.GOMAXPROCS(0)/2)) }

// decodeSlot is the slot of one request; nil holds nothing.
type decodeSlot struct {
	of    decodeSlots
	ended atomic.Bool
	lapse *time.Timer
}

// take waits for a slot; it returns nil if ctx ends first.
func (all decodeSlots) take(ctx context.Context) *decodeSlot {
	select {
	case all <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	t := &decodeSlot{of: all}
	t.lapse = time.AfterFunc(slotTime, t.release)
	return t
}

// awaitDecodeSlot waits for a slot for a large request, and for the memory of its answer, on its
// connection's reader. On a poller, which handles Produce only, it returns nil.
func (b *Broker) awaitDecodeSlot(r *network.Request) *decodeSlot {
	if !r.MayBlock() {
		return nil
	}
	t := b.decodeSlots.take(b.ctx)
	r.AwaitAnswerBudget()
	return t
}

// end releases the slot, unless it was released.
func (t *decodeSlot) end() {
	if t == nil {
		return
	}
	t.lapse.Stop()
	t.release()
}

func (t *decodeSlot) release() {
	if !t.ended.Swap(true) {
		<-t.of
	}
}
