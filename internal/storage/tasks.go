package storage

import (
	"sync"
	"sync/atomic"
)

// flushers is how many goroutines of a directory write to segments.
const flushers = 2

// tasks is the queue of the directory's flushers: logs to flush and other work that may wait for
// the disk. The number of logs and of their holds bounds it, since each log has at most one flush
// and one other task in it, and one for each hold that ends.
type tasks struct {
	tasksMu sync.Mutex
	more    *sync.Cond
	queue   []func()
	ended   bool
}

func (t *tasks) init() { t.more = sync.NewCond(&t.tasksMu) }

// run queues a task. It returns false if the directory is being closed.
func (t *tasks) run(task func()) bool {
	t.tasksMu.Lock()
	defer t.tasksMu.Unlock()
	if t.ended {
		return false
	}
	t.queue = append(t.queue, task)
	t.more.Signal()
	return true
}

// work is a flusher goroutine.
func (t *tasks) work() {
	for {
		t.tasksMu.Lock()
		for len(t.queue) == 0 && !t.ended {
			t.more.Wait()
		}
		if len(t.queue) == 0 {
			t.tasksMu.Unlock()
			return
		}
		task := t.queue[0]
		t.queue[0] = nil
		t.queue = t.queue[1:]
		t.tasksMu.Unlock()
		task()
	}
}

// stop ends the flushers when the queue is empty.
func (t *tasks) stop() {
	t.tasksMu.Lock()
	t.ended = true
	t.more.Broadcast()
	t.tasksMu.Unlock()
}

// schedule queues a flush of the log unless one is queued.
func (d *Dir) schedule(l *Log) {
	if l.scheduled.CompareAndSwap(false, true) && !d.run(l.flushTask) {
		l.scheduled.Store(false)
	}
}

func (l *Log) flushTask() {
	l.scheduled.Store(false)
	// The error is latched in the log; the maintenance goroutine repairs it.
	_ = l.flush()
}

// maxConcurrent is how many logs are created, opened or closed concurrently. A disk merges the
// flushes of concurrent fsyncs; beyond about 16 files there is no further gain.
const maxConcurrent = 16

// each calls fn for 0 to n-1, concurrently if n is large, and returns after all calls.
func each(n int, fn func(i int)) {
	workers := min(maxConcurrent, n/maxConcurrent)
	if workers < 2 {
		for i := range n {
			fn(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				fn(i)
			}
		})
	}
	wg.Wait()
}
