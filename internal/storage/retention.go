package storage

import (
	"errors"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/storage/cleaner"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// A look waits for logs whose files are being changed, but only this often and this long: a
// truncation may take minutes, and retention of the other logs must not wait for it.
const (
	busyRounds = 200
	busyPause  = 10 * time.Millisecond
)

// retain looks at every log once and removes what its retention takes. It reports whether it
// looked at all of them: the rest was busy throughout.
func (d *Dir) retain() bool {
	busy := d.retainAmong(d.Logs())
	for n := 0; len(busy) > 0 && n < busyRounds && d.sleep(busyPause); n++ {
		busy = d.retainAmong(busy)
	}
	return len(busy) == 0
}

// retainAmong looks at some logs and returns those that are busy. It writes one checkpoint
// for all others, and none if nothing goes.
func (d *Dir) retainAmong(logs []*Log) (busy []*Log) {
	var moves []StartMove
	for _, l := range logs {
		if d.stopping() {
			return nil
		}
		if !l.flushMu.TryLock() {
			busy = append(busy, l)
			continue
		}
		parts := l.partsLocked()
		l.flushMu.Unlock()
		now := time.Now()
		if v, start := l.judge(now, parts); len(v.Gone) > 0 {
			moves = append(moves, StartMove{Log: l, To: v.Start(start), gone: v.Gone})
		} else if l.rollDue(now) {
			if err := l.roll(); err != nil {
				d.logOnce(l, "segment could not be rolled for its age", err)
			}
		}
	}
	if len(moves) == 0 {
		return busy
	}
	d.MoveStarts(moves)
	for i := range moves {
		if err := moves[i].Err; err != nil {
			d.logOnce(moves[i].Log, "retention could not move the start of a log, it is tried again", err)
		}
	}
	return busy
}

// policy is what a configuration says of retention.
func (c *Cleanup) policy() cleaner.Policy {
	return cleaner.Policy{Delete: c.Delete, Time: c.RetentionTime, Bytes: c.RetentionBytes, Ahead: c.TimestampAfter}
}

// judge decides which of the log's parts may go now. It opens no file where the segments
// know their timestamps.
func (l *Log) judge(now time.Time, parts []cleaner.Part) (v cleaner.Verdict, start int64) {
	b := cleaner.Bounds{High: l.high(), Start: l.logStart.Load()}
	if parts == nil {
		return v, b.Start
	}
	return cleaner.Retain(now, l.cfg.Load().Cleanup.policy(), b, parts), b.Start
}

// parts returns the parts of the log that may be looked at now; nil where it is
// out of use. One whose segment failed is looked at: the disk may be full.
func (l *Log) parts() []cleaner.Part {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	return l.partsLocked()
}

// partsLocked is parts. It needs flushMu: between the end of a write to a segment and the
// note that it was done, its bytes would be counted twice, in the segment and in memory.
func (l *Log) partsLocked() []cleaner.Part {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.dir.stopping() || !l.life.state.Allows(loglife.Read) {
		return nil
	}
	n := len(l.segments)
	parts := make([]cleaner.Part, n, n+1)
	for i, s := range l.segments {
		parts[i] = cleaner.Part{Base: s.Base(), End: l.end(i), Bytes: s.Size(), Newest: func() (int64, error) { return l.newest(s) }, Written: s.Written}
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
		withMemory(last, rest)
	}
	return parts
}

// newest returns the largest timestamp of a segment. Of one with damage, of which that cannot be
// known, it returns when the segment was last written: it must go at some time, and so must all
// segments behind it.
func (l *Log) newest(s *segment.Segment) (int64, error) {
	ts, err := s.Newest()
	if !errors.Is(err, segment.ErrCorrupt) {
		return ts, err
	}
	l.examine(s, err)
	at, err := s.Written()
	return at.UnixMilli(), err
}

// withMemory adds to a part what is not in its segment yet.
func withMemory(p *cleaner.Part, rest []*chunk) {
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

// removalReason says why a part that begins at an offset went.
func removalReason(m *StartMove, base int64) (reason, why string) {
	for i := range m.gone {
		if m.gone[i].Base <= base && base < m.gone[i].End {
			return string(m.gone[i].Reason), m.gone[i].Why
		}
	}
	return string(cleaner.ByStart), fmt.Sprintf("the log begins at %d", m.To)
}

// Retained returns why the oldest part of the log is still there, in one sentence; "" for an
// empty log. It may read the disk.
func (l *Log) Retained() string {
	if err := l.Offline(); err != nil {
		return fmt.Sprintf("the log is not in use: %v", err)
	}
	parts := l.parts()
	if len(parts) == 0 {
		return ""
	}
	v, _ := l.judge(time.Now(), parts)
	why := v.Kept()
	if len(v.Gone) > 0 {
		why = "the keeper takes it when it looks next: " + v.Gone[0].Why
	}
	if parts[0].Active {
		why += " (it is the active segment)"
	}
	return why
}

// high returns the offset at and above which retention removes nothing: 0 for a log without
// an observer.
func (l *Log) high() int64 { return min(l.observer().High(), l.AckEnd()) }

// stable returns the offset at and above which compaction removes nothing.
func (l *Log) stable() int64 { return min(l.observer().Stable(), l.high()) }
