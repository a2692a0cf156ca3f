package segment

import (
	"math"

	"github.com/chronik-io/chronik/internal/record"
)

// buildEvery is the least distance, in bytes, of two entries of the offset index that a lookup
// builds.
const buildEvery = 16 << 10

// builder completes indexes from the headers of batches, which it receives in order. It begins at
// or before the batch of the last entry of the time index.
type builder struct {
	base   int64
	x      index // its arrays are the builder's own
	from   int64 // position of the last entry of the offset index
	last   timeEntry
	met    bool // the batch of last was passed, or there is no last
	wrong  bool // that batch contradicts last
	ts, at int64
	first  first
}

func newBuilder(base int64, x index) *builder {
	n := &builder{base: base, x: x.clone(), ts: -1, at: -1, met: true}
	if k := len(x.offsets); k > 0 {
		n.from = int64(x.offsets[k-1].pos)
	}
	if k := len(x.times); k > 0 {
		n.last, n.met = x.times[k-1], false
	}
	return n
}

// pass processes the header of a batch, and reports whether to continue.
func (n *builder) pass(b record.Batch, pos, _ int64) bool {
	rel := b.LastOffset() - n.base
	if pos == 0 {
		n.first = first{b.Newest(), true}
	}
	if !n.met && rel >= int64(n.last.rel) {
		n.met = rel == int64(n.last.rel) && b.Newest() == n.last.ts
		n.wrong = !n.met
	}
	if n.wrong {
		return false
	}
	if n.met && b.Newest() > n.ts {
		n.ts, n.at = b.Newest(), b.LastOffset()
	}
	if pos-n.from >= buildEvery && rel <= math.MaxInt32 {
		n.from = pos
		n.x.add(offsetEntry{rel: int32(rel), pos: int32(pos)})
		if n.met && n.ts >= 0 {
			n.x.addTime(timeEntry{ts: n.ts, rel: int32(n.at - n.base)})
		}
	}
	return true
}

// build completes the indexes and the known timestamps in one pass over the headers, beginning at
// the last entry of the time index. It returns the largest timestamp and the last offset of its
// batch. Entries built before an error are kept.
func (s *Segment) build(h *handle) (ts, at int64, err error) {
	x, changes := s.indexes()
	for {
		n := newBuilder(s.base, x)
		to := int64(-1)
		if !n.met {
			to = s.base + int64(n.last.rel)
		}
		from, right := s.floor(h, &x, to)
		if right {
			err = s.walk(h, from, false, n.pass)
		}
		if right && !n.wrong && (n.met || err != nil) {
			s.built(n, changes, err == nil)
			return n.ts, n.at, err
		}
		x, changes = index{savedOffsets: -1, savedTimes: -1}, s.distrust()
	}
}

// built stores the result of a builder, unless the indexes changed since it began: the change is
// more recent.
func (s *Segment) built(n *builder, changes int, whole bool) {
	s.mu.Lock()
	if s.changes != changes {
		s.mu.Unlock()
		return
	}
	s.x = &n.x
	s.changes++ // readers of the files may see half of the entries saved below
	if n.first.known {
		s.first = n.first
	}
	if whole {
		s.maxTs, s.maxAt, s.known = n.ts, n.at, true
	}
	victims, save := s.cacheIndexLocked(), !s.appending
	s.mu.Unlock()
	if save {
		s.SaveIndex()
	}
	evict(victims)
}

// complete returns the indexes, and builds them first if their files do not reach the end.
func (s *Segment) complete(h *handle) index {
	x, _ := s.indexes()
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	covered := int64(0)
	if n := len(x.offsets); n > 0 {
		covered = int64(x.offsets[n-1].pos)
	}
	if known || s.Size()-covered <= 2*buildEvery {
		return x
	}
	// The batch that caused an error may not matter for this lookup.
	_, _, _ = s.build(h)
	x, _ = s.indexes()
	return x
}
