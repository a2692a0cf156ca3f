package storage

import (
	"errors"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/storage/cleaner"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// Retention waits for logs whose files are being changed, but at most this often and this long each
// time: a truncation may take minutes, and must not delay retention of other logs.
const (
	busyRounds = 200
	busyPause  = 10 * time.Millisecond
)

// applyRetention applies retention to every log once; see applyRetentionOf.
func (d *Dir) applyRetention() bool { return d.applyRetentionOf(d.Logs()) }

// applyRetentionOf applies retention to each of some logs once. It reports whether it reached all
// of them; the others were busy throughout.
func (d *Dir) applyRetentionOf(logs []*Log) bool {
	busy := d.applyRetentionTo(logs)
	for n := 0; len(busy) > 0 && n < busyRounds && d.sleep(busyPause); n++ {
		busy = d.applyRetentionTo(busy)
	}
	return len(busy) == 0
}

// applyRetentionTo applies retention to some logs and returns those that are busy. One checkpoint
// commits all removals, and the starts whose own one failed; without these none is written.
func (d *Dir) applyRetentionTo(logs []*Log) (busy []*Log) {
	var moves []StartMove
	for _, l := range logs {
		if d.stopping() {
			return nil
		}
		l.freeHeld() // holds may yield to the disk
		if !l.flushMu.TryLock() {
			busy = append(busy, l)
			continue
		}
		parts := l.partsLocked()
		l.flushMu.Unlock()
		now, role := time.Now(), l.presentRole() // before the bounds are read, which belong to it
		if v, start := l.judge(now, role, parts); len(v.Gone) > 0 {
			moves = append(moves, StartMove{Log: l, To: v.Start(start), Only: role, gone: v.Gone, expires: v.Expires()})
		} else if parts != nil && start > l.DurableStart() { // its checkpoint failed
			moves = append(moves, StartMove{Log: l, To: PresentStart})
		} else if l.rollDue(now) {
			if err := l.roll(); err != nil {
				d.logOnce(l, "rolling a segment because of its age failed", err)
			}
		}
	}
	if len(moves) == 0 {
		return busy
	}
	d.MoveStarts(moves)
	for i := range moves {
		if err := moves[i].Err; err != nil && (!moves[i].Only.Is || moves[i].Only == moves[i].Log.presentRole()) {
			d.logOnce(moves[i].Log, "retention could not move the start of a log; the next run tries again", err)
		}
	}
	return busy
}

// policy returns the part of the configuration that concerns retention.
func (c *Cleanup) policy() cleaner.Policy {
	return cleaner.Policy{Delete: c.Delete || c.CopyFirst, Time: c.RetentionTime, Bytes: c.RetentionBytes, Ahead: c.TimestampAfter,
		Local: c.CopyFirst}
}

// judge decides which parts of the log retention removes now. It opens no file if the segments know
// their timestamps. Only a leader removes anything: a follower has its leader's log start, and a
// clock that is ahead on one broker must not delete what the other replicas keep. The caller reads
// the role first and moves the start only in it.
func (l *Log) judge(now time.Time, role Only, parts []cleaner.Part) (v cleaner.Verdict, start int64) {
	b := cleaner.Bounds{High: l.high(), Start: l.first(), Copied: l.observer().Copied()}
	if b.Stable = l.FirstUnstable(b.High); l.dir.opt.broken.has(retainOpen) {
		b.Stable = b.High
	}
	if parts == nil || !role.Leads && !l.dir.opt.broken.has(skipLeader) {
		return v, l.logStart.Load()
	}
	return cleaner.Retain(now, l.cfg.Load().Cleanup.policy(), b, parts), l.logStart.Load()
}

// parts returns the parts of the log to which retention applies now, nil if the log is not in use.
// A log whose segment failed is included, since a full disk may be the cause.
func (l *Log) parts() []cleaner.Part {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	return l.partsLocked()
}

// partsLocked is parts for a caller that holds flushMu. Otherwise a flush in progress would count
// its bytes twice, in the segment and in memory.
func (l *Log) partsLocked() []cleaner.Part {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.dir.stopping() || !l.life.state.Allows(loglife.Read) {
		return nil
	}
	n := len(l.segments)
	parts := make([]cleaner.Part, n, n+1)
	for i, s := range l.segments {
		parts[i] = cleaner.Part{Base: s.Base(), End: l.end(i), Bytes: s.Size(),
			Newest: func() (int64, error) { return l.newest(s) }, Written: s.Written}
	}
	rest := l.tail.chunks[l.tail.flushed:]
	if n == 0 {
		if len(rest) == 0 {
			return nil
		}
		parts = append(parts, cleaner.Part{Base: rest[0].base})
		n = 1
	}
	last := &parts[n-1]
	last.Active = true
	if len(rest) > 0 {
		last.End, last.Bytes = rest[len(rest)-1].next, last.Bytes+l.tail.unflushedBytes()
		addUnflushed(last, rest)
	}
	return parts
}

// newest returns the largest timestamp of a segment. If the segment is damaged, the timestamp is
// unknown, and newest returns the time of the last write. Otherwise retention would never remove
// the segment and those behind it.
func (l *Log) newest(s *segment.Segment) (int64, error) {
	ts, err := s.Newest()
	if !errors.Is(err, segment.ErrCorrupt) {
		return ts, err
	}
	l.examine(s, err)
	at, err := s.Written()
	return at.UnixMilli(), err
}

// Written returns when the records below an offset were written, as retention knows it: when the
// last one was appended, or its segment last modified if it is in one. The offset must be above the
// log start.
func (l *Log) Written(end int64) (time.Time, error) {
	l.mu.RLock()
	rest := l.tail.chunks[l.tail.flushed:]
	for i := len(rest) - 1; i >= 0; i-- {
		if rest[i].base < end {
			at := rest[i].queued
			l.mu.RUnlock()
			return at, nil
		}
	}
	i := len(l.segments) - 1
	for i > 0 && l.segments[i].Base() >= end {
		i--
	}
	if i < 0 {
		defer l.mu.RUnlock()
		return time.Time{}, fmt.Errorf("%w: %s has no records below %d", ErrOffsetOutOfRange, l, end)
	}
	s := l.segments[i]
	l.mu.RUnlock()
	return s.Written()
}

// addUnflushed adds the chunks that are not in a segment to a part.
func addUnflushed(p *cleaner.Part, rest []*chunk) {
	newest, wrote, below := int64(-1), rest[len(rest)-1].queued, p.Newest
	for _, c := range rest {
		newest = max(newest, c.maxTs)
	}
	p.Newest = func() (int64, error) {
		if below == nil {
			return newest, nil
		}
		ts, err := below()
		return max(ts, newest), err
	}
	p.Written = func() (time.Time, error) { return wrote, nil }
}

// removalReason returns the reason why the part that begins at base was removed, as a metric label
// and in words.
func removalReason(m *StartMove, base int64) (reason, why string) {
	for i := range m.gone {
		if m.gone[i].Base <= base && base < m.gone[i].End {
			return string(m.gone[i].Reason), m.gone[i].Why
		}
	}
	return string(cleaner.ByStart), fmt.Sprintf("the log starts at %d", m.To)
}

// Retained explains in one sentence why the oldest part of the log has not been removed; "" for an
// empty log. It may read the disk.
func (l *Log) Retained() string {
	if err := l.Offline(); err != nil {
		return fmt.Sprintf("the log is not in use: %v", err)
	}
	parts := l.parts()
	if len(parts) == 0 {
		return ""
	}
	v, _ := l.judge(time.Now(), l.presentRole(), parts)
	why := v.Kept()
	if len(v.Gone) > 0 {
		why = "the next retention run removes it: " + v.Gone[0].Why
	}
	if parts[0].Active && parts[0].Bytes > 0 {
		why += " (it is the active segment)"
	}
	return why
}

// high returns the offset at and above which retention removes nothing: 0 for a log without
// an observer.
func (l *Log) high() int64 {
	high, _ := l.observer().High()
	return max(min(high, l.AckEnd()), 0)
}

// stable returns the offset at and above which compaction removes nothing.
func (l *Log) stable() int64 {
	high := l.high()
	return min(l.observer().Stable(), high, l.FirstUnstable(high))
}
