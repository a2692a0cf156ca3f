package segment

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/chronik-io/chronik/internal/sorts"
)

// A read that meets damage returns its position. Examine then determines, once, where the damage
// ends. From then on reads skip the damage, and a read inside of it needs no disk I/O.

// DamageError is the error of a read that met bytes that are not a valid batch. It matches
// ErrCorrupt.
type DamageError struct {
	Path  string
	Pos   int64 // of the batch in the file
	cause error
	known *[]Flaw // Segment.flaws when the read began
}

// Error implements error.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%v at position %d of %s: %v", ErrCorrupt, e.Pos, e.Path, e.cause)
}

// Causes of a DamageError in addition to those of package record.
var (
	errNoBatch = errors.New("not a valid batch")
	errOffsets = errors.New("its offsets do not follow the previous batch, or are beyond the segment's end")
	errEpoch   = errors.New("its leader epoch is not that of its offsets")
	errKnown   = errors.New("an earlier read found it damaged")
)

// Unwrap makes the error match ErrCorrupt and its cause.
func (e *DamageError) Unwrap() []error { return []error{ErrCorrupt, e.cause} }

// corrupt returns the error of a read that began with these known flaws.
func (s *Segment) corrupt(pos int64, cause error, known *[]Flaw) error {
	return &DamageError{Path: s.Path(), Pos: pos, cause: cause, known: known}
}

// Flaws returns the flaws that Examine has found, in the order of positions. The caller must not
// modify the slice.
func (s *Segment) Flaws() []Flaw {
	if p := s.flaws.Load(); p != nil {
		return *p
	}
	return nil
}

// findFlaw returns the first flaw of a list for which is returns true; nil if there is none.
func findFlaw(list *[]Flaw, is func(f *Flaw) bool) *Flaw {
	if list == nil {
		return nil
	}
	if i := slices.IndexFunc(*list, func(f Flaw) bool { return is(&f) }); i >= 0 {
		return &(*list)[i]
	}
	return nil
}

// flawAt returns the flaw of a list that begins at a position, or nil.
func flawAt(list *[]Flaw, pos int64) *Flaw {
	return findFlaw(list, func(f *Flaw) bool { return f.Pos == pos })
}

// Examine finds the flaw that a read met. It mends what the facts about the segment mend, and
// remembers other flaws until the segment is truncated below them. size bytes of the file are
// valid, and limit is above all their offsets. Examine reads from the last index entry before the
// position to the end of the flaw, which is at worst the end of the segment. If several readers
// meet the same damage, one of them does this and the others wait. Examine returns what it has
// mended, also with an error, which is that of a read or a write; and whether anything has been
// found since the read began, so that the caller should repeat the read.
func (s *Segment) Examine(met *DamageError, size, limit int64) (news bool, mended []Flaw, err error) {
	s.examining.Lock()
	defer s.examining.Unlock()
	pos := met.Pos
	if now := s.flaws.Load(); now != met.known || flawAt(now, pos) != nil {
		return now != met.known, nil, nil
	}
	cuts := s.positions.count()
	h, err := s.open()
	if err != nil {
		return false, nil, fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(h)
	c := checker{scanner: newScanner(h.f, size, batchStep, s.facts.Load()), base: s.base, x: &index{}, limit: limit, next: s.base}
	from, base := s.before(h, pos)
	c.next = base
	if err := c.run(from, pos); err != nil {
		return false, nil, fmt.Errorf("read %s: %w", s.Path(), err)
	}
	var left []Flaw
	for _, f := range c.Flaws {
		mends := f.Mends() && c.facts.cover(f.Pos+f.Size)
		if mends {
			fault := s.mend(h, &f, cuts)
			err, mends = errors.Join(err, fault), fault == nil
		}
		if mends {
			mended = append(mended, f)
		} else {
			left = append(left, f)
		}
	}
	if len(mended) > 0 {
		if fault := s.fdatasync(h); fault != nil { // the corrections may never reach the disk
			err, left, mended = errors.Join(err, fault), c.Flaws, nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.positions.count() != cuts || s.Size() < size { // the bytes that were read may be gone
		return false, mended, fmt.Errorf("%w: %s was truncated", ErrReplaced, s.Path())
	}
	news = s.addFlawsLocked(left, mended)
	return news, mended, err
}

// Recall examines again what an earlier process found damaged in the first size bytes of the file;
// limit is above all their offsets. What is still damaged counts as found, and so does what cannot
// be read.
func (s *Segment) Recall(found []Flaw, size, limit int64) {
	for _, f := range found {
		known := s.flaws.Load()
		if f.Pos+f.Size > size || flawAt(known, f.Pos) != nil {
			continue
		}
		if _, _, err := s.Examine(&DamageError{Path: s.Path(), Pos: f.Pos, cause: errKnown, known: known}, size, limit); err != nil {
			s.mu.Lock()
			s.addFlawsLocked([]Flaw{f}, nil)
			s.mu.Unlock()
		}
	}
}

// addFlawsLocked adds flaws to the known ones, replacing those that they overlap, removes those
// that were mended, and reports whether any is new or was mended.
func (s *Segment) addFlawsLocked(found, mended []Flaw) (news bool) {
	list := slices.Clone(s.Flaws())
	for _, f := range mended {
		list, news = slices.DeleteFunc(list, func(old Flaw) bool { return old.Pos == f.Pos }), true
	}
	for _, f := range found {
		if slices.Contains(list, f) {
			continue
		}
		list = slices.DeleteFunc(list, func(old Flaw) bool { return old.Pos < f.Pos+f.Size && f.Pos < old.Pos+old.Size })
		list, news = append(list, f), true
	}
	sorts.Sort(list, func(a, b Flaw) int { return int(a.Pos - b.Pos) })
	if news {
		s.flaws.Store(&list)
	}
	return news
}

// truncateFlawsLocked removes the flaws that end above size.
func (s *Segment) truncateFlawsLocked(size int64) {
	list := s.Flaws()
	if len(list) == 0 {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(list), func(f Flaw) bool { return f.Pos+f.Size > size })
	s.flaws.Store(&kept)
}

// before returns the position and base offset of a batch before pos, according to an index entry
// that the batch confirms, skipping one entry between it and pos. It returns the start of the file
// if there is no such entry. Batches before the one at pos may be the damaged ones.
func (s *Segment) before(h *handle, pos int64) (start, base int64) {
	x, _ := s.indexes()
	i := sort.Search(len(x.offsets), func(i int) bool { return int64(x.offsets[i].pos) >= pos })
	if i < 2 {
		return 0, s.base
	}
	at, right := s.floor(h, &x, s.base+int64(x.offsets[i-2].rel))
	if !right || at >= pos {
		return 0, s.base
	}
	sc := newScanner(h.f, s.Size(), headerStep, nil)
	b, _, err := sc.header(at)
	if b == nil || err != nil {
		return 0, s.base
	}
	return at, b.BaseOffset()
}

// inFlaw returns the error of reading an offset within a known flaw, or nil.
func (s *Segment) inFlaw(offset int64) error {
	known := s.flaws.Load()
	if f := findFlaw(known, func(f *Flaw) bool { return offset >= f.From && offset < f.To }); f != nil {
		return s.corrupt(f.Pos, errKnown, known)
	}
	return nil
}

// toEnd makes a checker run through the whole file.
const toEnd = math.MaxInt64
