package storage

import (
	"sync/atomic"
	"time"
)

// useGap is how long the journal counts as in use after a write. A read-ahead of the system that
// begins before the next write may delay that write by several milliseconds.
const useGap = time.Second

// journalUses remembers when the journal was found to have new entries.
type journalUses struct {
	lsn atomic.Uint64 // highest LSN at that time
	at  atomic.Int64  // Unix time in ns
}

// journalInUse reports whether the journal had new entries within useGap, or probably so: its
// callers find that out by calling it again, so that no append has to note the time.
func (d *Dir) journalInUse() bool {
	now := time.Now().UnixNano()
	if lsn := uint64(d.journal.Assigned()); d.uses.lsn.Swap(lsn) != lsn {
		d.uses.at.Store(now)
		return true
	}
	return now-d.uses.at.Load() < int64(useGap)
}
