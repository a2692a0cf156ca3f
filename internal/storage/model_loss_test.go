package storage

import (
	"slices"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/testing/errfs"
)

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
