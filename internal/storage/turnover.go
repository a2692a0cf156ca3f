package storage

import (
	"sync"
	"time"
)

// turnoverTime is how long the page cache should keep segment writes: a reader that lags by less
// finds them there.
const turnoverTime = 2 * time.Minute

// turnover measures how fast a directory writes segments, and reports when that is too fast for the
// page cache to keep the writes for turnoverTime. Then caching them costs more than it brings,
// since each page evicts another.
type turnover struct {
	memory int64 // of the machine, in bytes; 0: unknown, nothing is too fast

	mu    sync.Mutex
	since time.Time
	bytes int64 // written since then
	fast  bool  // in the previous interval
}

// count counts written bytes, and reports whether they come too fast.
func (t *turnover) count(n int, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes += int64(n)
	took := now.Sub(t.since)
	if took >= time.Second {
		t.fast = t.memory > 0 && float64(t.bytes)*float64(turnoverTime) >= float64(t.memory)*float64(took)
		t.since, t.bytes = now, 0
	}
	return t.fast
}
