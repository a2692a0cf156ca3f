package storage

import (
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// Span is the part of a log that one replicated append carries to a follower that ends at Start:
// whole batches, or a gap. Release must be called once.
//
// Parts are not copies: they alias chunks in memory or a pooled buffer, do not change, and stay
// valid until Release, also if the log drops or discards these records. Until then the memory
// counts for the log directory, so a caller must bound the bytes that it holds.
type Span struct {
	Slice
	// Start is where the span begins. It is below the requested offset if a batch straddles that
	// offset, as it can at the log start. A follower cannot append such a span: it must be reset to
	// Start.
	Start int64
	// End is the offset after the span: the end of its last batch, or of the gap. It equals Start
	// if there is nothing to read yet.
	End int64
	// Epoch is the leader epoch of a gap at Start, -1 if unknown.
	Epoch int32
}

// Gap reports whether the log has no batches in the span.
func (s *Span) Gap() bool { return s.Size == 0 && s.End > s.Start }

// ReadSpan returns what a follower that ends at an offset appends next, up to the log end: batches
// of up to about max bytes, at least one, or a gap. A gap is a span of its own if a leader epoch
// begins in it or if it extends to the log end: the follower could not learn either from the
// batches that follow. So the follower gets exactly this log's epochs and end, except that it does
// not know the epoch of a gap at its own start. ReadSpan may read the disk. Its errors are those of
// Read.
func (l *Log) ReadSpan(offset int64, max int) (Span, error) {
	s, _, err := l.span(offset, func(limit int64) (Slice, bool, error) {
		s, err := l.Read(offset, limit, max, true)
		return s, true, err
	})
	return s, err
}

// ReadSpanMemory is ReadSpan without disk access. It never blocks; ok is false if the disk would be
// needed. After Observer.Appended it returns the appended records.
func (l *Log) ReadSpanMemory(offset int64, max int) (s Span, ok bool, err error) {
	return l.span(offset, func(limit int64) (Slice, bool, error) { return l.ReadMemory(offset, limit, max, true) })
}

// span returns the span that begins at an offset. read returns batches below a limit, at least one
// if there is one.
func (l *Log) span(offset int64, read func(limit int64) (Slice, bool, error)) (s Span, ok bool, err error) {
	for {
		end, cuts := l.published()
		s, ok, err = l.spanTo(offset, end, read)
		if err != nil || !ok || s.Size > 0 || s.End == s.Start {
			return s, ok, err
		}
		if _, again := l.published(); again == cuts {
			return s, ok, nil
		} // otherwise the records in the gap may have been discarded during the read
	}
}

// published returns the end of the records that can be read, and how often the log has moved back.
// The log end is already higher while a chunk is being filled.
func (l *Log) published() (end int64, cuts int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch n := len(l.tail.chunks); {
	case n > 0:
		return l.tail.chunks[n-1].next, l.cuts
	case !l.life.state.Allows(loglife.Whole): // some are being replayed, and a read of them fails
		return l.durable.Load(), l.cuts
	}
	return l.flushed, l.cuts
}

// spanTo is span for a log that ends at end.
func (l *Log) spanTo(offset, end int64, read func(limit int64) (Slice, bool, error)) (s Span, ok bool, err error) {
	s.Start, s.End = offset, offset
	if s.Slice, ok, err = read(end); err != nil || !ok || offset >= end {
		return s, ok, err
	}
	first, last := end, end // the batches are in [first, last)
	if s.Size > 0 {
		first, last = boundsOf(s.Parts)
	}
	s.Start = min(offset, first)
	l.producersMu.Lock()
	epoch, begins := l.epochs.Begins(offset)
	inGap := l.epochs.After(offset)
	inBatches := l.epochs.After(max(offset, first))
	l.producersMu.Unlock()
	if s.Epoch = epoch; s.Size == 0 || first > offset && (begins || inGap < first) {
		s.Release()
		s.Slice, s.End = Slice{}, min(first, inGap)
		return s, true, nil
	}
	if inBatches < last { // only a gap that begins an epoch needs a span of its own, but so it is simpler
		s.Release()
		if s.Slice, ok, err = read(inBatches); err != nil || !ok || s.Size == 0 {
			s.Start, s.End = offset, offset // the log has dropped them since
			return s, ok, err
		}
		first, last = boundsOf(s.Parts)
	}
	s.Start, s.End = min(offset, first), last
	return s, true, nil
}

// boundsOf returns the offset of the first of some batches, and the offset after the last one.
func boundsOf(parts [][]byte) (first, end int64) {
	first = record.Batch(parts[0]).BaseOffset()
	for p := parts[len(parts)-1]; len(p) > 0; {
		b, rest, err := record.Next(p)
		if err != nil {
			break
		}
		end, p = b.LastOffset()+1, rest
	}
	return first, end
}
