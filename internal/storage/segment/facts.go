package segment

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// No checksum covers the base offset and the leader epoch of a batch, because a leader assigns them
// to the bytes of a client. So each way of reading a segment compares them with what the log knows
// otherwise: offsets continue from batch to batch up to the segment's end, and the log stores where
// its leader epochs begin.

// Facts are what a log knows of the first bytes of a segment without reading them. They never
// change: other facts replace them. Nil means that nothing is known.
type Facts struct {
	Size   int64        // number of the bytes; a batch begins there
	End    int64        // above the offsets in them, and not above those behind them
	Epochs epochs.Cache // leader epochs of the offsets below End
}

// Establish sets the facts about the present bytes of the segment, whose offsets are below end.
// Bytes that are appended later have no facts until the next call.
func (s *Segment) Establish(end int64, e *epochs.Cache) {
	s.facts.Store(&Facts{s.Size(), end, e.Within(s.base, end)})
}

// KnownEnd returns where the offsets of the segment end, if there are facts about all of its bytes.
func (s *Segment) KnownEnd() (end int64, known bool) {
	if f := s.facts.Load(); f.cover(s.Size()) {
		return f.End, true
	}
	return 0, false
}

// truncateFacts limits the facts to size bytes, which end where offset next begins.
func (s *Segment) truncateFacts(size, next int64) {
	if f := s.facts.Load(); f != nil && f.Size > size {
		s.facts.Store(&Facts{size, next, f.Epochs})
	}
}

// cover reports whether the bytes before a position are among those with facts.
func (f *Facts) cover(end int64) bool { return f != nil && end <= f.Size }

// follows reports whether the offsets of the header at a position are possible after all offsets
// below next.
func (f *Facts) follows(b record.Batch, pos, next int64) bool {
	if b.BaseOffset() < next || b.LastOffsetDelta() < 0 {
		return false
	}
	return f == nil || pos >= f.Size || b.BaseOffset() < f.End && b.LastOffset() < f.End
}

// epoch returns the leader epoch that the batch at a position must have if it ends with an offset,
// -1 if it is unknown. Below the log start, where the batch may begin, the log has no epochs.
func (f *Facts) epoch(pos, last int64) int32 {
	if f == nil || pos >= f.Size {
		return -1
	}
	return f.Epochs.At(last)
}

// check returns why a header cannot be at a position after all offsets below next, nil if it can.
func (f *Facts) check(b record.Batch, pos, next int64) error {
	if !f.follows(b, pos, next) {
		return errOffsets
	}
	if want := f.epoch(pos, b.LastOffset()); want >= 0 && want != b.LeaderEpoch() {
		return errEpoch
	}
	return nil
}

// mend writes the right base offset and leader epoch into the header of a batch, if its checksum
// and the facts prove that it has no other damage. cuts is the value of positions.count at which
// the flaw was found. mend writes the wrong fields only, and Examine syncs them: a loss of power
// may make anything of what is not synced. It is found and mended again in a single batch, but next
// to another such batch its base offset has several values.
func (s *Segment) mend(h *handle, f *Flaw, cuts int64) error {
	s.mending.Lock()
	defer s.mending.Unlock()
	if !s.facts.Load().cover(f.Pos+f.Size) || s.positions.count() != cuts {
		return fmt.Errorf("%w: %s was truncated", ErrReplaced, s.Path())
	}
	if err := s.Err(); err != nil {
		return err
	}
	b := make([]byte, record.HeaderSize)
	if _, err := h.f.ReadAt(b, f.Pos); err != nil {
		return fmt.Errorf("mend the header of a batch: %w", err)
	}
	was := bytes.Clone(b)
	f.Mend(b)
	for _, field := range record.Uncovered() {
		from, to := field[0], field[1]
		if bytes.Equal(was[from:to], b[from:to]) {
			continue
		}
		if _, err := h.f.WriteAt(b[from:to], f.Pos+from); err != nil {
			return s.latch(fmt.Errorf("mend the header of a batch: %w", err))
		}
	}
	again := make([]byte, record.HeaderSize) // a disk that returns other bytes must not make readers repeat this
	if _, err := h.f.ReadAt(again, f.Pos); err != nil || !bytes.Equal(again, b) {
		return fmt.Errorf("mend the header of a batch: %w", cmp.Or(err, errNoBatch))
	}
	return nil
}
