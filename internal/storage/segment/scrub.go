package segment

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Point is a position in a segment's file between two batches, and an offset above those before it.
type Point struct{ Pos, Next int64 }

// Scrub reads all batches from a point on, and returns the point after the last valid one. Damage
// matches ErrCorrupt; when Examine has found its end, Scrub skips it. wrap returns the file through
// which Scrub reads: it has a descriptor of its own, so that readers keep their read-ahead. After
// Replace, Scrub returns ErrReplaced.
func (s *Segment) Scrub(from Point, wrap func(vfs.File) vfs.File) (Point, error) {
	f, err := current(s, s.files.fs.Open, func(f vfs.File) { _ = f.Close() })
	if err != nil {
		return from, fmt.Errorf("read segment: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	vfs.SetReadAhead(f, false)
	known := s.flaws.Load()
	sc, at := newScanner(wrap(f), s.Size(), batchStep, s.facts.Load()), from
	at.Next = max(at.Next, s.base)
	for at.Pos < sc.Size {
		if x := flawAt(known, at.Pos); x != nil {
			at = Point{at.Pos + x.Size, x.To}
			continue
		}
		next, pos, err := sc.prefix(at.Pos, at.Next, func(record.Batch) error { return nil })
		if err != nil {
			return at, fmt.Errorf("read %s: %w", s.Path(), err)
		}
		if at = (Point{pos, next}); pos < sc.Size && flawAt(known, pos) == nil {
			return at, s.corrupt(pos, errNoBatch, known)
		}
	}
	return at, nil
}
