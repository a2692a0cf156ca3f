package storage

import (
	"slices"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// rot changes a bit of a batch in a sealed segment that no checksum covers, while clients may read
// it, and reads the segment as the background does. Only one value is possible, so nothing may
// change for anybody. Next to gaps a base offset has several: there it changes a leader epoch.
func (w *world) rot(m *mlog) {
	m.l.mu.RLock()
	sealed := m.l.inactiveLocked()
	m.l.mu.RUnlock()
	if len(sealed) == 0 {
		return
	}
	w.errs.Clear() // a correction that fails makes the batch unreadable
	s := sealed[w.rng.IntN(len(sealed))].Segment
	f, err := w.disk.Open(s.Path())
	if err != nil {
		return // a compaction or a crash was faster
	}
	defer f.Close()
	text := make([]byte, s.Size())
	if _, err := f.ReadAt(text, 0); err != nil {
		return
	}
	var batches []int64
	for p := text; len(p) > 0; {
		_, rest, err := record.Next(p)
		if err != nil {
			return // it was truncated meanwhile
		}
		batches, p = append(batches, int64(len(text)-len(p))), rest
	}
	if len(batches) == 0 {
		return
	}
	at := batches[w.rng.IntN(len(batches))] + 12 + w.rng.Int64N(4)
	if w.rng.IntN(2) == 0 && !m.compacted {
		at = batches[w.rng.IntN(len(batches))] + w.rng.Int64N(8)
	}
	bit := w.rng.IntN(8)
	w.say("bit %d of byte %d of %s changes", bit, at, s.Path())
	if _, err := f.WriteAt([]byte{text[at] ^ 1<<bit}, at); err == nil {
		w.dir.scrubSegment(m.l, s)
	}
}

// loss records whether a start may find fewer records than were written, although no power was
// lost: a datasync of the journal failed, and the system evicted the bytes from the page cache.
// The directory writes them to segments again before it accepts records, but it may be killed
// before that.
type loss struct {
	evicted atomic.Bool
	marked  atomic.Bool // the checkpoint does not name the boot, so the next start reports the loss
}

// watch returns a hook for rules that make calls fail.
func (x *loss) watch(d errfs.Drop) func(errfs.Call) {
	return func(c errfs.Call) {
		if c.Op == errfs.Datasync && d == errfs.DropEvicted {
			x.marked.Store(false)
			x.evicted.Store(true)
		}
	}
}

// reverted records what the checkpoint says when a directory has failed.
func (x *loss) reverted(d *Dir) {
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	x.marked.Store(d.last.Boot == [16]byte{})
}

// allows reports whether a log may lack records that were only written.
func (x *loss) allows(l *Log) bool {
	if x.marked.Load() && !slices.Contains(l.dir.LossyLogs(), l.id) {
		return false
	}
	return x.evicted.Load()
}
