package stream

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/storage"
	"go.uber.org/zap"
)

// directory truncates the logs of a log directory and moves their starts, as many as possible with
// each checkpoint.
type directory struct {
	s    *Streams
	dir  *storage.Dir
	most int64 // of used
	used atomic.Int64

	mu      sync.Mutex
	cuts    []job
	moves   []job
	cutting bool // a goroutine runs
	moving  bool
}

// job is a truncation or a move of the log start.
type job struct {
	f    *following
	cut  *storage.Truncation
	move *storage.StartMove
}

// add queues a job. There is at most one truncation, and one move, for each log.
func (d *directory) add(j job) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if j.cut != nil {
		d.cuts = append(d.cuts, j)
		if !d.cutting {
			d.cutting = d.s.spawn(d.truncate)
		}
		return
	}
	d.moves = append(d.moves, j)
	if !d.moving {
		d.moving = d.s.spawn(d.moveStarts)
	}
}

// take returns what is queued, and ends the goroutine if there is nothing.
func (d *directory) take(list *[]job, running *bool) []job {
	d.mu.Lock()
	defer d.mu.Unlock()
	jobs := *list
	*list = nil
	*running = len(jobs) > 0
	return jobs
}

// truncate runs until nothing is queued.
func (d *directory) truncate() {
	for {
		jobs := d.take(&d.cuts, &d.cutting)
		if len(jobs) == 0 {
			return
		}
		cuts := make([]storage.Truncation, len(jobs))
		for i, j := range jobs {
			cuts[i] = *j.cut
		}
		d.dir.Truncate(cuts)
		for i, j := range jobs {
			j.f.truncated(cuts[i].Err)
		}
	}
}

// moveStarts runs until nothing is queued.
func (d *directory) moveStarts() {
	for {
		jobs := d.take(&d.moves, &d.moving)
		if len(jobs) == 0 {
			return
		}
		moves := make([]storage.StartMove, len(jobs))
		for i, j := range jobs {
			moves[i] = *j.move
		}
		d.dir.MoveStarts(moves)
		for i, j := range jobs {
			j.f.startMoved(moves[i].Err)
		}
	}
}

// truncated subscribes again after a truncation.
func (f *following) truncated(err error) {
	t := f.part
	if err != nil {
		t.s.opt.Logger.Warn("cannot truncate a replica", zap.Stringer("partition", t.p), zap.Error(err))
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
func (f *following) startMoved(err error) {
	t := f.part
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
