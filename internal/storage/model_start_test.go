package storage

import (
	"math"
	"slices"
	"time"
)

// setStarts moves the starts of several logs at once, some of them to the log end.
func (w *world) setStarts() {
	var some []*mlog
	for _, m := range w.logs {
		if (len(some) == 0 || w.rng.IntN(2) == 0) && w.calm(m) {
			some = append(some, m)
		}
	}
	if w.disk.Crashed() {
		return
	}
	w.poll()
	moves := make([]StartMove, len(some))
	for i, m := range some {
		m.mu.Lock()
		start := m.cur.start + w.rng.Int64N(m.cur.end()-m.cur.start+1)
		if w.rng.IntN(3) == 0 {
			start = m.cur.end()
		}
		m.alts, m.replacing = append(m.alts, m.cur), true
		m.cur.start = start
		m.mu.Unlock()
		w.say("start of %s to %d", m.topic, start)
		moves[i] = StartMove{Log: m.l, To: start}
	}
	w.dir.MoveStarts(moves)
	for i, m := range some {
		again := false
		w.replace(m, func() error {
			if again {
				w.dir.MoveStarts(moves[i : i+1])
			}
			again = true
			return moves[i].Err
		})
	}
}

// retention runs retention with a policy that removes everything, since all records are of 1970, or
// down to some size. What it removes is not known in advance.
func (w *world) retention() {
	for _, m := range w.logs {
		if !w.calm(m) {
			return
		}
	}
	w.poll()
	bytes, old := w.rng.Int64N(20<<10), time.Duration(-1)
	if w.rng.IntN(3) == 0 {
		old = time.Hour
	}
	before := map[*mlog]history{}
	for _, m := range w.logs {
		m.l.setCleanup(Cleanup{Delete: true, RetentionTime: old, RetentionBytes: bytes, TimestampAfter: time.Hour})
		m.mu.Lock()
		before[m], m.replacing = m.cur, true
		m.mu.Unlock()
	}
	w.dir.applyRetention()
	for _, m := range w.logs {
		m.l.setCleanup(Cleanup{})
		w.retained(m, before[m], bytes, old)
	}
}

// retained checks what retention did to a log and updates the model.
func (w *world) retained(m *mlog, was history, bytes int64, old time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	start := m.l.logStart.Load()
	if start == was.start {
		// If compaction left no record in a segment, only the file shows its age.
		if old > 0 && was.start < was.end() && !w.disk.Crashed() && m.l.Err() == nil && !m.compacted && w.allStable(m) {
			failf("%s: retention left [%d, %d), which is of 1970", m.topic, was.start, was.end())
		}
		m.replacing = false
		return
	}
	if first := m.l.FirstUnstable(math.MaxInt64); start > max(was.start, first) {
		failf("%s: retention moved the start to %d, but a transaction is open since %d", m.topic, start, first)
	}
	w.say("retention of %d bytes and %v: start of %s from %d to %d", bytes, old, m.topic, was.start, start)
	var left int64
	for _, b := range m.cur.bs {
		if b.base >= start {
			left += int64(len(b.data))
		}
	}
	whole := start == was.end() || slices.ContainsFunc(m.cur.bs, func(b mbatch) bool { return b.base == start })
	all := old > 0 && !w.disk.Crashed() && !m.compacted && w.allStable(m)
	if start < was.start || !whole || old < 0 && left < bytes || all && start != was.end() {
		failf("%s: retention of %d bytes and %v moved the start from %d to %d of %d, %d bytes are left", m.topic, bytes, old,
			was.start, start, was.end(), left)
	}
	m.cur.start = start
	if m.l.startSynced.Load() >= start {
		m.alts, m.replacing = nil, false
		return
	}
	if !w.disk.Crashed() {
		failf("%s: the start %d is not durable, but the disk did not fail", m.topic, start)
	}
	m.alts = append(m.alts, was)
}

// rollUp rolls the active segment of a log.
func (w *world) rollUp(m *mlog) {
	w.say("roll %s", m.topic)
	if err := m.l.roll(); err != nil {
		w.diskError("roll", err)
	}
}

// setCleanup changes the cleanup policy without waking the retention loop, also of a configuration
// that still waits for its mark.
func (l *Log) setCleanup(c Cleanup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := *l.cfg.Load()
	now.Cleanup = c
	l.cfg.Store(&now)
	l.dir.limitsChanged()
	if l.acks.pending != nil {
		next := *l.acks.pending
		next.Cleanup = c
		l.acks.pending = &next
	}
}
