package storage

import (
	"strings"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
)

// read runs a reader while only the directory's own goroutines are active. Half of the time
// something was just appended to a log, and its bytes move during the read.
func (w *world) read() {
	w.stopReading() // the consumers have one reader
	m := w.logs[w.rng.IntN(len(w.logs))]
	if w.rng.IntN(2) == 0 {
		w.newReader(nil).act()
		return
	}
	w.append(m, 1+w.rng.IntN(4))
	w.acked(m)
	r := w.newReader(m)
	w.between.arm(w.disturbance(m.l))
	defer w.between.disarm()
	r.act()
}

// withReader runs a step while a reader runs in another goroutine.
func (w *world) withReader(step func()) {
	if w.cfg.noReader || w.rng.IntN(5) > 0 {
		step()
		return
	}
	w.reading = w.newReader(nil)
	go func(r *reader) {
		defer close(r.done)
		r.err = guard(func() error {
			for more := true; more && !w.disk.Crashed(); more = !r.stop.Load() {
				r.act()
			}
			return nil
		})
	}(w.reading)
	defer w.stopReading()
	step()
}

// stopReading stops the reader of withReader.
func (w *world) stopReading() {
	if r := w.reading; r != nil {
		w.reading = nil
		r.stop.Store(true)
		<-r.done
		if r.err != nil {
			failf("during a step: %v", r.err)
		}
	}
}

// churn makes the directory move bytes while they are read.
func (w *world) churn() {
	for range 1 + w.rng.IntN(8) {
		if w.disk.Crashed() {
			return
		}
		m := w.logs[w.rng.IntN(len(w.logs))]
		w.append(m, 1+w.rng.IntN(3))
		w.disturbance(m.l)()
	}
}

// disturbance returns one of the operations that move bytes without changing the log.
func (w *world) disturbance(l *Log) func() {
	switch w.rng.IntN(5) {
	case 0:
		return func() { _ = l.roll() }
	case 1:
		return func() { w.dir.memory.evictCached([]*Log{l}) }
	case 2:
		return func() { signal(w.dir.sweeps) }
	case 3:
		return func() { _ = l.flush() }
	default:
		return func() {
			_ = l.flush()
			w.dir.memory.evictCached([]*Log{l})
		}
	}
}

// between calls a function during the next read of a segment.
type between struct {
	mu sync.Mutex
	fn func()
	wg sync.WaitGroup
}

func (b *between) arm(fn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fn = fn
}

// disarm returns when a function that was called has returned.
func (b *between) disarm() {
	b.arm(nil)
	b.wg.Wait()
}

// now calls the function unless it was called. It only waits for it for a while, since the read may
// hold a lock that it needs.
func (b *between) now() {
	b.mu.Lock()
	fn := b.fn
	b.fn = nil
	if fn != nil {
		b.wg.Add(1)
	}
	b.mu.Unlock()
	if fn == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer b.wg.Done()
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Millisecond):
	}
}

// disturbedFS calls between.now before each read of a segment.
type disturbedFS struct {
	vfs.FS
	b *between
}

type disturbedFile struct {
	vfs.File
	b *between
}

// Open implements vfs.FS.
func (d disturbedFS) Open(name string) (vfs.File, error) { return d.file(d.FS.Open(name)) }

// Create implements vfs.FS.
func (d disturbedFS) Create(name string) (vfs.File, error) { return d.file(d.FS.Create(name)) }

func (d disturbedFS) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(f.Name(), ".log") {
		return f, err
	}
	return disturbedFile{f, d.b}, nil
}

// ReadAt implements vfs.File.
func (f disturbedFile) ReadAt(p []byte, off int64) (int, error) {
	f.b.now()
	return f.File.ReadAt(p, off)
}
