package coordinator

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/label"
)

// workers are the goroutines on which shards run. A transaction makes a shard run six times, for
// some microseconds each. So a goroutine that has run one stays for the next: starting it, and
// growing its stack again each time, took a tenth of the broker's processor time under
// transactional load.
//
// No run waits for another one: if no goroutine is free, a new one is started. A group of the
// journal ends the appends of many shards at a time, so more goroutines stay than there are
// processors.
type workers struct {
	ctx     context.Context // ends those that are free
	work    *sync.WaitGroup
	next    chan *shard // unbuffered: only a free goroutine receives; never closed
	free    atomic.Int64
	maxFree int64
}

// maxFree bounds the goroutines that stay, of about 8 KiB each. With 16 producers and four of them,
// starting others took 6 % of the broker's processor time.
const maxFree = 64

func newWorkers(ctx context.Context, work *sync.WaitGroup) *workers {
	return &workers{ctx: ctx, work: work, next: make(chan *shard), maxFree: maxFree}
}

// works labels the goroutines of workers.
var works = label.New("coordinator shard", "")

// start runs a shard on a goroutine of its own until the shard has no work. It does not block.
func (w *workers) start(s *shard) {
	select {
	case w.next <- s:
	default:
		w.work.Go(func() { w.run(s) })
	}
}

// run runs a shard, and then others, until enough goroutines are free without this one, or the
// context ends.
func (w *workers) run(s *shard) {
	works.Set()
	for {
		s.run()
		if w.free.Add(1) > w.maxFree {
			w.free.Add(-1)
			return
		}
		select {
		case s = <-w.next:
			w.free.Add(-1)
		case <-w.ctx.Done():
			return
		}
	}
}
