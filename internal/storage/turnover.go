package storage

import (
	"sync"
	"time"
)

// turnoverTime is how long the system's memory should keep what is written to
// segments: a reader that is less behind than this finds it there, and not on the disk.
const turnoverTime = 2 * time.Minute

// turnover measures how fast a directory writes segments, and says when that is
// too fast for the system to remember any of it for long. Then keeping it costs
// more than it brings: each page is taken from something else.
type turnover struct {
	memory int64 // of the system, in bytes; 0: unknown, nothing is too fast

	mu    sync.Mutex
	since time.Time
	bytes int64 // written since then
	fast  bool  // in the time before
}

// count counts bytes, and says whether they come too fast.
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
