package segment

import (
	"sync"
	"time"
)

// pace is how many bytes of paced appends the disk gets at once, for all segments of a directory.
// While one piece is written, the journal's datasyncs wait, so the pieces are small. But if the
// appends are busy for most of the time, the segments are about to fall behind the journal, until
// the logs have no memory and every request waits. So the pieces double then, up to paceMost.
//
// Next to a bulk load of 1 KiB records, requests of 100 B took 54 ms (p99) with pieces of 128 KiB,
// and 2.8 ms with 1 MiB. Next to nothing, 25 MB/s of records of 1,000 B took 33 to 62 ms with 128
// KiB, and 69 to 76 ms with 1 MiB.
type pace struct {
	mu    sync.Mutex
	bytes int64         // 0: paceLeast
	since time.Time     // of the present window
	busy  time.Duration // of the appends that have ended in it
}

const (
	paceLeast  = 128 << 10
	paceMost   = backAt
	paceWindow = 20 * time.Millisecond
)

// size returns the size of a piece, in bytes.
func (p *pace) size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.bytes, paceLeast)
}

// took takes note of a paced append. Appends to several segments may overlap.
func (p *pace) took(begin, end time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy += end.Sub(begin)
	window := end.Sub(p.since)
	if window < paceWindow {
		return
	}
	switch now := max(p.bytes, paceLeast); {
	case window > time.Second: // the last one was of another load
		p.bytes = paceLeast
	case p.busy > window/2:
		p.bytes = min(2*now, paceMost)
	case p.busy < window/4:
		p.bytes = max(now/2, paceLeast)
	}
	p.since, p.busy = end, 0
}
