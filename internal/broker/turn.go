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

// turnTime is how long a turn lasts at most: a request that computes for so long does not
// exist, and one that waits for a disk or for other members keeps no other from its turn.
const turnTime = time.Second

// turns are taken by large requests, so that they leave half of the processors to the small
// ones: these take microseconds, and would wait 10 ms for a processor at each of their steps,
// which is how long Go's scheduler leaves a goroutine alone that computes. Nor are there more
// large answers in memory that clients have yet to read than one for each turn beyond the
// network's bound.
type turns chan struct{}

func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// turn is what a request holds that has its turn; nil holds nothing.
type turn struct {
	of    turns
	ended atomic.Bool
	lapse *time.Timer
}

// take waits for a turn; nil where ctx ended first.
func (all turns) take(ctx context.Context) *turn {
	select {
	case all <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	t := &turn{of: all}
	t.lapse = time.AfterFunc(turnTime, t.giveBack)
	return t
}

// turn waits for the turn of a large request, and for room for its answer, on its connection's
// reader. No poller handles one: it handles Produce only.
func (b *Broker) turn(r *network.Request) *turn {
	if !r.MayBlock() {
		return nil
	}
	t := b.turns.take(b.ctx)
	r.AwaitRoom()
	return t
}

// end ends a turn, unless it has ended.
func (t *turn) end() {
	if t == nil {
		return
	}
	t.lapse.Stop()
	t.giveBack()
}

func (t *turn) giveBack() {
	if !t.ended.Swap(true) {
		<-t.of
	}
}
