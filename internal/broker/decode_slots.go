package broker

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/network"
)

// largeBody is how many bytes a request may have that takes no turn, and manyEntries how
// many topics or partitions its answer may list that it does not name. It takes a few ms
// then; a request that names a hundred thousand takes a hundred.
const (
	largeBody   = 64 << 10
	manyEntries = 2000
)

// slotTime is how long a turn lasts at most: a request that computes for so long does not
// exist, and one that waits for a disk or for other members keeps no other from its turn.
const slotTime = time.Second

// decodeSlots are taken by large requests, so that they leave half of the processors to the small
// ones: these take microseconds, and would wait 10 ms for a processor at each of their steps,
// which is how long Go's scheduler leaves a goroutine alone that computes. Nor are there more
// large answers in memory that clients have yet to read than one for each turn beyond the
// network's bound.
type decodeSlots chan struct{}

func newDecodeSlots() decodeSlots { return make(decodeSlots, max(1, runtime.GOMAXPROCS(0)/2)) }

// decodeSlot is what a request holds that has its turn; nil holds nothing.
type decodeSlot struct {
	of    decodeSlots
	ended atomic.Bool
	lapse *time.Timer
}

// take waits for a turn; nil where ctx ended first.
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

// awaitDecodeSlot waits for the turn of a large request, and for room for its answer, on its connection's
// reader. No poller handles one: it handles Produce only.
func (b *Broker) awaitDecodeSlot(r *network.Request) *decodeSlot {
	if !r.MayBlock() {
		return nil
	}
	t := b.decodeSlots.take(b.ctx)
	r.AwaitAnswerBudget()
	return t
}

// end ends a turn, unless it has ended.
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
