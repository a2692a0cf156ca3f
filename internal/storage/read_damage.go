package storage

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// Damage is a range of offsets that reads cannot return, because the bytes that held them are not
// valid record batches. Other offsets can be read.
type Damage struct {
	// From is the first unreadable offset. Next is the first readable offset after it, or the end
	// of the segments.
	From, Next int64
	// File and Position locate the damaged bytes.
	File     string
	Position int64
}

// Error returns the offsets and the location. The error matches ErrCorrupt.
func (d *Damage) Error() string {
	return fmt.Sprintf("%v: offsets %d to %d are unreadable, the next readable one is %d; position %d of %s", ErrCorrupt, d.From,
		d.Next-1, d.Next, d.Position, d.File)
}

// Unwrap returns ErrCorrupt.
func (d *Damage) Unwrap() error { return ErrCorrupt }

// Damages returns the unreadable ranges that reads have found, in order. Checkpoints keep them. A
// range disappears when a repair, retention, a truncation or a deletion removes its bytes. Damages
// does not read the disk.
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

// DamagedAt reports whether an offset is in a known unreadable range.
func (l *Log) DamagedAt(offset int64) bool {
	for _, d := range l.Damages() {
		if offset >= d.From && offset < d.Next {
			return true
		}
	}
	return false
}

// examine repairs the damage that a read met, or finds its end. It reports whether it found
// something new, in which case the read may succeed now. It blocks while it reads to the end of the
// damage, once per damage.
func (l *Log) examine(s *segment.Segment, met error) bool {
	l.dir.stats.segmentErrors.Inc()
	var at *segment.DamageError
	if !errors.As(met, &at) {
		return false
	}
	size, limit := l.extent(s)
	news, mended, err := s.Examine(at, size, limit)
	for _, f := range mended {
		l.dir.log.Warn("the header of a stored batch was damaged, outside of its checksum, and is mended; nothing is lost",
			zap.Stringer("log", l), zap.Int64("offset", f.From), zap.String("file", s.Path()), zap.Int64("position", f.Pos))
	}
	if errors.Is(err, segment.ErrReplaced) {
		return true
	}
	if err != nil {
		l.dir.logOnce(l, "damaged bytes could not be examined or mended", errors.Join(met, err))
	}
	if news && len(s.Flaws()) > 0 {
		l.noteFlawed()
		l.storeFlaws()
		l.dir.log.Error("stored bytes are damaged; the records there can't be served; see chronikctl cluster health",
			zap.Stringer("log", l),
			zap.Error(l.damageAt(s, at.Pos)))
	}
	return news
}

// storeFlaws has the known flaws committed in the background. Those that are found until the commit
// begins share it.
func (l *Log) storeFlaws() {
	if !l.storing.CompareAndSwap(false, true) {
		return
	}
	l.dir.run(func() {
		l.storing.Store(false)
		if err := l.dir.commit(l); err != nil {
			l.dir.logOnce(l, "damage is not in the checkpoint yet; a restart now would have to find it again", err)
		}
	})
}

// noteFlawed makes Damages inspect the log's segments.
func (l *Log) noteFlawed() {
	l.flawed.Store(true)
	l.dir.suspects.Name(l)
}

// flawsLocked returns the known flaws for a checkpoint. The caller holds mu.
func (l *Log) flawsLocked() (all []checkpoint.Flaw) {
	if !l.flawed.Load() || l.dir.opt.broken.has(forgetDamage) {
		return nil
	}
	for _, s := range l.segments {
		for _, f := range s.Flaws() {
			all = append(all, checkpoint.Flaw{Base: s.Base(), Pos: f.Pos, Size: f.Size, From: f.From, To: f.To})
		}
	}
	return all
}

// recallFlaws makes the flaws that a checkpoint has of a segment known again, if they are still
// there: a repair may have removed them. next is the segment's end offset.
func (l *Log) recallFlaws(s *segment.Segment, lc *checkpoint.Log, size, next int64) {
	var found []segment.Flaw
	for _, f := range lc.Flaws {
		if f.Base == s.Base() {
			found = append(found, segment.Flaw{Pos: f.Pos, Size: f.Size, From: f.From, To: f.To})
		}
	}
	s.Recall(found, size, next)
	if len(s.Flaws()) > 0 {
		l.noteFlawed()
	}
}

// damageAt returns the damage at a position of a segment. If no offset is lost there, the error has
// the position only.
func (l *Log) damageAt(s *segment.Segment, pos int64) error {
	for _, f := range s.Flaws() {
		for _, d := range l.Damages() {
			if pos >= f.Pos && pos < f.Pos+f.Size && f.From >= d.From && f.From < d.Next {
				return &d
			}
		}
	}
	return fmt.Errorf("%w: position %d of %s; no offset is lost there", ErrCorrupt, pos, s.Path())
}

// extent returns the number of valid bytes of a segment and its end offset.
func (l *Log) extent(s *segment.Segment) (size, limit int64) {
	for {
		before := l.endOf(s)
		size = s.Size()
		if limit = l.endOf(s); limit == before {
			return size, limit
		}
	}
}

// endOf returns the end offset of a segment, or of all segments if it is not in the list.
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
