package stream

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage"
)

// directory truncates the logs of a log directory and moves their starts, as many as possible with
// each checkpoint.
type directory struct {
	s    *Streams
	dir  *storage.Dir
	most int64 // of used
	used atomic.Int64

	mu    sync.Mutex
	cuts  queue[storage.Truncation]
	moves queue[storage.StartMove]
}

// queue has the jobs of one kind for the logs of a directory, at most one for each log.
type queue[T any] struct {
	jobs    []T
	of      []*following
	running bool // a goroutine does them
}

// jobsAtOnce bounds the entries of a checkpoint, which have the producers of the logs.
const jobsAtOnce = 1024

// add queues a job. A goroutine calls do with those that are queued, as often as there are some,
// and then done with each.
func add[T any](d *directory, q *queue[T], f *following, job T, do func([]T), done func(*following, *T)) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	q.jobs, q.of = append(q.jobs, job), append(q.of, f)
	if q.running {
		return
	}
	q.running = d.s.spawn(func() {
		for {
			d.mu.Lock()
			n := min(len(q.jobs), jobsAtOnce)
			jobs, of := q.jobs[:n:n], q.of[:n:n]
			if q.jobs, q.of, q.running = q.jobs[n:], q.of[n:], n > 0; len(q.jobs) == 0 {
				q.jobs, q.of = nil, nil
			}
			d.mu.Unlock()
			if n == 0 {
				return
			}
			do(jobs)
			for i := range jobs {
				done(of[i], &jobs[i])
			}
		}
	})
}

const cannotTruncate = "cannot truncate a replica"

// truncated subscribes again after a truncation.
func (f *following) truncated(cut *storage.Truncation) {
	t, err := f.part, cut.Err
	switch {
	case err == nil:
		t.s.works(cannotTruncate, "a replica was truncated after failures", t)
	case errors.Is(err, storage.ErrFencedEpoch), errors.Is(err, storage.ErrClosed): // another role decides, or none
	default:
		t.s.say(t.s.opt.Logger.Warn, cannotTruncate, t, zap.Int32("leader", f.from.leader), err)
	}
	t.mu.Lock()
	t.cutting = false
	if f.state == cutting {
		if f.tries++; err == nil && f.tries < 8 { // each round drops an epoch
			f.state = wanted
		} else {
			f.again()
		}
	}
	t.mu.Unlock()
	if now := t.following.Load(); now != nil { // another role may wait for the truncation
		now.wake()
	}
}

// startMoved confirms a log start to the leader. One that could not move is tried again after a
// pause: the leader names it only once, and a follower with another start never joins the ISR.
func (f *following) startMoved(move *storage.StartMove) {
	t, err := f.part, move.Err
	t.mu.Lock()
	f.pinning = pinDone
	if err != nil {
		f.started = 0
	}
	if err != nil && f.state == live {
		f.tries++
		f.from.wakeAt(f, time.Now().Add(backoff.After(f.tries)))
	}
	t.mu.Unlock()
	if now := t.following.Load(); now != nil { // another leader may not know the start either
		now.wake()
	}
}
