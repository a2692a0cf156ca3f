package storage

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/segment"
)

// Damage is a range of offsets that no read can return: the bytes that hold them are no
// valid record batches. Offsets outside of it are served.
type Damage struct {
	// From is the first unreadable offset, Next the first one behind that can be read, or
	// the end of what is in segments if nothing follows.
	From, Next int64
	// File and Position are where the bytes begin.
	File     string
	Position int64
}

// Error names the offsets and the place. It matches ErrCorrupt.
func (d *Damage) Error() string {
	return fmt.Sprintf("%v: offsets %d to %d cannot be read, offset %d can; position %d of %s", ErrCorrupt, d.From, d.Next-1, d.Next, d.Position, d.File)
}

// Unwrap makes it match ErrCorrupt.
func (d *Damage) Unwrap() error { return ErrCorrupt }

// Damages returns the unreadable ranges that reads of this run have met, in order. One is
// gone when retention, a truncation or a deletion has removed its bytes. It reads nothing
// from the disk.
func (l *Log) Damages() (all []Damage) {
	if !l.flawed.Load() {
		return nil
	}
	l.mu.RLock()
	segments := l.segments
	l.mu.RUnlock()
	start := l.logStart.Load()
	for _, s := range segments {
		for _, f := range s.Flaws() {
			from := max(f.From, start)
			if from >= f.To {
				continue
			}
			if n := len(all); n > 0 && all[n-1].Next == from {
				all[n-1].Next = f.To
				continue
			}
			all = append(all, Damage{From: from, Next: f.To, File: s.Path(), Position: f.Pos})
		}
	}
	return all
}

// Damaged returns the first of Damages as an error, nil if there is none.
func (l *Log) Damaged() error {
	if all := l.Damages(); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// DamagedAt reports whether an offset lies in a range that is known to be unreadable.
func (l *Log) DamagedAt(offset int64) bool {
	for _, d := range l.Damages() {
		if offset >= d.From && offset < d.Next {
			return true
		}
	}
	return false
}

// examine finds out where the damage ends that a read of a segment met, and reports
// whether something new was found, so that the read may succeed now. It blocks for as long
// as reading to the end of the damage takes, once for each damage.
func (l *Log) examine(s *segment.Segment, met error) bool {
	l.dir.stats.segmentErrors.Inc()
	var at *segment.DamageError
	if !errors.As(met, &at) {
		return false
	}
	size, limit := l.extent(s)
	news, err := s.Examine(at, size, limit)
	switch {
	case errors.Is(err, segment.ErrReplaced):
		return true
	case err != nil:
		l.dir.logOnce(l, "the extent of damaged bytes cannot be found", errors.Join(met, err))
	case news:
		l.flawed.Store(true)
		l.dir.log.Error("stored bytes are damaged; the records there can't be served", zap.Stringer("log", l), zap.Error(l.damageAt(s, at.Pos)))
	}
	return news
}

// damageAt returns the damage that holds a position of a segment, the error that names the
// position alone if no offset is lost by it.
func (l *Log) damageAt(s *segment.Segment, pos int64) error {
	for _, f := range s.Flaws() {
		for _, d := range l.Damages() {
			if pos >= f.Pos && pos < f.Pos+f.Size && f.From >= d.From && f.From < d.Next {
				return &d
			}
		}
	}
	return fmt.Errorf("%w: position %d of %s, which holds no offsets of the log", ErrCorrupt, pos, s.Path())
}

// extent returns how many bytes of a segment count, and the offset at which they end.
func (l *Log) extent(s *segment.Segment) (size, limit int64) {
	for {
		before := l.endOf(s)
		size = s.Size()
		if limit = l.endOf(s); limit == before {
			return size, limit
		}
	}
}

// endOf returns the offset at which a segment ends, or the log's segments if it is none
// of them.
func (l *Log) endOf(s *segment.Segment) int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i := range l.segments {
		if l.segments[i] == s {
			return l.end(i)
		}
	}
	return l.flushed
}
