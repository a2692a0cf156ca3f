package storage

import (
	"math"
	"time"

	"github.com/chronik-io/chronik/internal/storage/segment"
)

// limits say when a segment of the log is full. What must be compacted within a
// time must leave the active segment within it.
func (c *Config) limits() segment.Limits {
	s := c.Segment
	if lag := c.Cleanup.MaxLag.Milliseconds(); c.Cleanup.Compact && lag > 0 {
		s.Ms = min(s.Ms, lag)
	}
	return s
}

// rolls says whether a chunk belongs into a new segment after size bytes of chunks,
// beginning with first, that are about to be written to the active one.
func rolls(active *segment.Segment, limits segment.Limits, first *chunk, size int, c *chunk) bool {
	size += len(c.data)
	if active.Size() > 0 {
		return active.Full(limits, size, c.next-1, c.maxTs)
	}
	return int64(size) > min(limits.Bytes, math.MaxInt32) || c.next-1-active.Base() > math.MaxInt32 ||
		first.maxTs >= 0 && c.maxTs-first.maxTs > active.RollMs(limits)
}

// rollDue says whether the active segment must end although nobody writes to it, or
// only records whose timestamps don't move on: with compaction, since what is in
// it isn't compacted; with retention by time where its timestamps can't be believed.
func (l *Log) rollDue(now time.Time) bool {
	cfg := l.cfg.Load()
	compact := cfg.Cleanup.Compact && cfg.Cleanup.MaxLag > 0
	if !compact && (!cfg.Cleanup.Delete || cfg.Cleanup.RetentionTime < 0) {
		return false
	}
	l.mu.RLock()
	usable := l.unusableLocked() == nil
	active := l.last()
	if active != nil && active.Size() == 0 {
		active = nil
	}
	var waits time.Time // since when the oldest record waits that is in no segment
	if c := l.tail.firstUnflushed(); c != nil {
		waits = c.queued
	}
	l.mu.RUnlock()
	switch {
	case !usable:
		return false
	case active == nil: // only what is compacted must come to a segment
		return compact && !waits.IsZero() && now.Sub(waits) > cfg.Cleanup.MaxLag
	}
	p := cfg.Cleanup.policy()
	age := now.Sub(active.Begun())
	if first, ok := active.First(); ok && first >= 0 && first <= now.UnixMilli() {
		age = max(age, now.Sub(time.UnixMilli(first)))
	}
	if compact && age > cfg.Cleanup.MaxLag {
		return true
	}
	if age.Milliseconds() <= active.RollMs(cfg.limits()) {
		return false
	}
	newest, err := active.Newest()
	return err == nil && cfg.Cleanup.Delete && !p.Believable(now, newest)
}

// roll ends the active segment: an empty one follows it.
func (l *Log) roll() error {
	if err := l.awaitDurable(l.logEnd.Load()); err != nil {
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
	_, err := l.addSegment(end, l.cfg.Load()) // without it the sealed one goes on
	return err
}

// seal ends a segment; flushMu is held.
func (l *Log) seal(active *segment.Segment) error {
	if err := active.Seal(); err != nil {
		return err
	}
	l.synced()
	l.dir.stats.rolls.Inc()
	return nil
}
