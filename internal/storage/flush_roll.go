package storage

import (
	"math"
	"time"

	"github.com/chronik-io/chronik/internal/storage/segment"
)

// limits returns the limits at which a segment of the log is full. The maximum compaction lag also
// bounds the age of the active segment, which is not compacted.
func (c *Config) limits() segment.Limits {
	s := c.Segment
	if lag := c.Cleanup.MaxLag.Milliseconds(); c.Cleanup.Compact && lag > 0 {
		s.Ms = min(s.Ms, lag)
	}
	return s
}

// rolls reports whether chunk c needs a new segment if size bytes of chunks, the first of which is
// first, are written to the active one before it.
func rolls(active *segment.Segment, limits segment.Limits, first *chunk, size int, c *chunk) bool {
	size += len(c.data)
	if active.Size() > 0 {
		return active.Full(limits, size, c.next-1, c.maxTs)
	}
	return int64(size) > min(limits.Bytes, math.MaxInt32) || c.next-1-active.Base() > math.MaxInt32 ||
		first.maxTs >= 0 && c.maxTs-first.maxTs > active.RollMs(limits)
}

// rollDue reports whether the active segment must be rolled although appends do not fill it.
// Compaction needs that because it skips the active segment. Retention by time needs it if the
// segment's timestamps are not believable, and if it removes only what was copied elsewhere: an
// active segment may not be copied.
func (l *Log) rollDue(now time.Time) bool {
	cfg := l.cfg.Load()
	compact := cfg.Cleanup.Compact && cfg.Cleanup.MaxLag > 0
	p := cfg.Cleanup.policy()
	if !compact && (!p.Delete || p.Time < 0) {
		return false
	}
	l.mu.RLock()
	usable := l.unusableLocked() == nil
	active := l.last()
	if active != nil && active.Size() == 0 {
		active = nil
	}
	var waits time.Time // enqueue time of the oldest chunk that is in no segment
	if c := l.tail.firstUnflushed(); c != nil {
		waits = c.queued
	}
	l.mu.RUnlock()
	switch {
	case !usable:
		return false
	case active == nil: // only these two need the chunks in a segment
		return !waits.IsZero() && (compact && now.Sub(waits) > cfg.Cleanup.MaxLag || cfg.Cleanup.CopyFirst && now.Sub(waits) > p.Time)
	}
	age := now.Sub(active.Begun())
	if first, ok := active.First(); ok && first >= 0 && first <= now.UnixMilli() {
		age = max(age, now.Sub(time.UnixMilli(first)))
	}
	if compact && age > cfg.Cleanup.MaxLag {
		return true
	}
	full := age.Milliseconds() > active.RollMs(cfg.limits())
	if !full && !cfg.Cleanup.CopyFirst {
		return false
	}
	newest, err := active.Newest()
	if err != nil || !p.Delete {
		return false
	}
	if !p.Believable(now, newest) {
		return full
	}
	return cfg.Cleanup.CopyFirst && p.Time >= 0 && now.Sub(time.UnixMilli(newest)) > p.Time
}

// roll seals the active segment and adds an empty one.
func (l *Log) roll() error {
	if err := l.awaitDurable(l.logEnd.Load(), Only{}); err != nil {
		return err
	}
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if err := l.flushLocked(); err != nil {
		return err
	}
	if err := l.syncLocked(); err != nil {
		return err
	}
	l.mu.RLock()
	active, end := l.last(), l.flushed
	l.mu.RUnlock()
	if active == nil || active.Size() == 0 || active.Base() == end {
		return nil
	}
	if err := l.seal(active); err != nil {
		return l.segmentFailed(err)
	}
	_, err := l.addSegment(end, l.cfg.Load()) // after an error the sealed segment stays active
	return err
}

// seal seals a segment and moves the recovery point. The caller holds flushMu.
func (l *Log) seal(active *segment.Segment) error {
	if err := active.Seal(); err != nil {
		return err
	}
	l.synced()
	l.dir.stats.rolls.Inc()
	return nil
}
