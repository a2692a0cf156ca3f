package storage

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Each segment with aborted transactions has an index of them, in Kafka's format. The entries of
// the markers beyond the recovery point are also in the producer state. A flush gives them to the
// segment, and the sync that moves the recovery point writes them first. The checkpoint has the
// number and the checksum of each segment's entries. A start cuts the file to them, and the replay
// adds the rest.
//
// An index that does not match the checkpoint is built from the segment and the producer snapshot
// before it is used. Without a snapshot the result covers all records that the log still has: a
// transaction of which records were deleted begins with the first that is left.

// abortedSince returns the aborted transactions whose markers are in [from, end). from must not be
// below the recovery point.
func (l *Log) abortedSince(from, end int64) []txnindex.Entry {
	if l.unstable.aborted.Load() < from {
		return nil
	}
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.producers.Aborted(from, end)
}

// AbortedIn returns the aborted transactions that a reader of committed records at an offset must
// know of for the batches in s, in the order of their markers. If there are more than most, s is
// cut after its first batch or later. Since a loan cannot be cut, it is then read. The read's
// limit, a last stable offset, must have been determined before s was read. AbortedIn may read the
// disk.
//
// Errors match ErrOffsetOutOfRange, ErrCorrupt, ErrFailed, ErrClosed.
func (l *Log) AbortedIn(offset int64, s *Slice, most int) ([]txnindex.Entry, error) {
	return l.abortedIn(offset, s, most, nil)
}

func (l *Log) abortedIn(offset int64, s *Slice, most int, h *Hold) ([]txnindex.Entry, error) {
	for s.Size > 0 && l.unstable.aborted.Load() >= offset {
		list, bad, err := l.aborted(offset, s.Next(), l.segmentAborted, h)
		switch {
		case bad != nil && unusable(err):
			err = l.rebuildAborted(bad)
		case err == nil && s.Loan != nil && len(list) > most:
			var read Slice
			if read, err = l.Read(offset, s.Next(), s.Size, true); err == nil {
				s.Release()
				*s = read
			}
		case err == nil:
			return s.Shorten(list, most), nil
		}
		if err != nil && !errors.Is(err, segment.ErrReplaced) {
			return nil, err
		}
	}
	return nil, nil
}

// AbortedAfter adds to list, which has aborted transactions that a reader of s must know of, those
// that the log has with markers from an offset on. All of s is below. Like AbortedIn it cuts s if
// there are more than most, and may read the disk.
func (l *Log) AbortedAfter(from int64, s *Slice, list []txnindex.Entry, most int) ([]txnindex.Entry, error) {
	for l.unstable.aborted.Load() >= from {
		more, bad, err := l.aborted(from, s.Next(), l.segmentAborted, nil)
		switch {
		case bad != nil && unusable(err):
			err = l.rebuildAborted(bad)
		case err == nil:
			return s.Shorten(txnindex.Once(append(list, more...)), most), nil // the caller may know of later markers, too
		}
		if err != nil && !errors.Is(err, segment.ErrReplaced) {
			return nil, err
		}
	}
	return s.Shorten(list, most), nil
}

// AbortedInMemory is AbortedIn without disk access. It never blocks; ok is false if the disk would
// be needed.
func (l *Log) AbortedInMemory(offset int64, s *Slice, most int) (list []txnindex.Entry, ok bool, err error) {
	if s.Size == 0 || l.unstable.aborted.Load() < offset {
		return nil, true, nil
	}
	list, bad, err := l.aborted(offset, s.Next(), func(seg *segment.Segment) ([]txnindex.Entry, error) {
		entries, held := seg.AbortedMemory()
		if !held {
			return nil, segment.ErrAborted
		}
		return entries, nil
	}, nil)
	switch {
	case bad != nil:
		return nil, false, nil
	case err != nil:
		return nil, true, err
	}
	return s.Shorten(list, most), true, nil
}

// aborted returns the aborted transactions with records in [from, limit). read returns the index of
// a segment; bad is the segment for which it failed.
func (l *Log) aborted(from, limit int64, read func(*segment.Segment) ([]txnindex.Entry, error), h *Hold) (list []txnindex.Entry,
	bad *segment.Segment, err error) {
	// The producer state first: entries move from there to the segments.
	recent := l.abortedSince(from, math.MaxInt64)
	segments, err := l.snapshot()
	if err != nil {
		return nil, nil, err
	}
	more, last := true, from-1
	for i, s := range segments {
		if !more || i+1 < len(segments) && segments[i+1].Base() <= from || !s.HasAborted() {
			continue
		}
		entries, err := read(s)
		if err != nil {
			return nil, s, err
		}
		if list, more = txnindex.Search(list, entries, from, limit); len(entries) > 0 {
			last = max(last, entries[len(entries)-1].Last)
		}
	}
	if l.dir.opt.broken.has(segmentsFirst) {
		recent = l.abortedSince(from, math.MaxInt64)
	}
	for more && len(recent) > 0 && recent[0].Last <= last && !l.dir.opt.broken.has(abortedTwice) {
		recent = recent[1:]
	}
	if more {
		list, _ = txnindex.Search(list, recent, from, limit)
	}
	l.mu.RLock()
	start := l.firstLocked(h)
	l.mu.RUnlock()
	if start > from { // the segments below it may be gone, with their indexes
		return nil, nil, fmt.Errorf("%w: offset %d of %s, which begins at %d", ErrOffsetOutOfRange, from, l, start)
	}
	return list, nil, nil
}

// segmentAborted returns the index of a segment. Of the errors, see unusable; the others match
// ErrFailed or segment.ErrReplaced.
func (l *Log) segmentAborted(s *segment.Segment) ([]txnindex.Entry, error) {
	return l.readAborted(s, s == l.active())
}

// readAborted is segmentAborted; keep is as in segment.Segment.Aborted.
func (l *Log) readAborted(s *segment.Segment, keep bool) ([]txnindex.Entry, error) {
	entries, err := s.Aborted(keep)
	if err != nil && !unusable(err) && !errors.Is(err, segment.ErrReplaced) {
		l.dir.segmentError(l, "index of aborted transactions could not be read", err)
		return nil, fmt.Errorf("%w: %s: %w", ErrFailed, l, err)
	}
	return entries, err
}

// unusable reports whether an error of a segment's index means that it must be built: the index is
// missing or wrong, or the disk does not return it. If the machine is short of something, the index
// may be right, and the next attempt finds out.
func unusable(err error) bool {
	return errors.Is(err, segment.ErrAborted) || isSystemError(err) && !shortage(err)
}

// markFound returns the mark of the index that a segment happens to have. Only tests use it, which
// show that the mark must come from the checkpoint.
func markFound(fsys vfs.FS, s *segment.Segment) txnindex.Mark {
	b, _ := vfs.ReadFile(fsys, s.AbortedPath())
	entries, _ := txnindex.Parse(b)
	return txnindex.MarkOf(entries)
}

// abortedOf returns the index of a segment below the recovery point, and builds it first if it
// cannot be used. The caller holds no lock.
func (l *Log) abortedOf(s *segment.Segment) ([]txnindex.Entry, error) {
	entries, err := l.readAborted(s, false)
	if unusable(err) {
		l.flushMu.Lock()
		defer l.flushMu.Unlock()
		return l.usableAborted(s)
	}
	return entries, err
}

// rebuildAborted builds the index of a segment that has none that can be used. It returns
// segment.ErrReplaced if the log has no such segment any longer.
func (l *Log) rebuildAborted(s *segment.Segment) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	_, err := l.usableAborted(s)
	return err
}

// usableAborted returns the index of a segment, and builds it first if it cannot be used. The
// caller holds flushMu.
func (l *Log) usableAborted(s *segment.Segment) ([]txnindex.Entry, error) {
	entries, fault := l.segmentAborted(s)
	if !unusable(fault) {
		return entries, fault
	}
	segments, err := l.snapshot()
	if err != nil {
		return nil, err
	}
	i := slices.Index(segments, s)
	if i < 0 {
		return nil, segment.ErrReplaced
	}
	if err = l.buildAborted(segments[:i+1]); err != nil {
		l.dir.segmentError(l, "index of aborted transactions could not be built", err)
		return nil, fmt.Errorf("%w: build the index of aborted transactions of %s: %w", ErrFailed, s.AbortedPath(), err)
	}
	l.dir.log.Warn("index of aborted transactions built again", zap.Stringer("log", l), zap.Error(fault))
	return l.segmentAborted(s)
}

// buildAborted builds the index of the last of the first segments of the log. The caller holds
// flushMu.
func (l *Log) buildAborted(segments []*segment.Segment) error {
	s := segments[len(segments)-1]
	known, from, err := l.recall(segments)
	if err != nil {
		return err
	}
	if err := l.replayHeaders(&known, segments[from:]); err != nil {
		return err
	}
	l.mu.RLock()
	rp := l.rp.Offset
	l.mu.RUnlock()
	s.HoldAborted(slices.Clone(known.Aborted(s.Base(), rp)))
	s.AddAborted(known.Aborted(max(s.Base(), rp), math.MaxInt64))
	l.mu.Lock()
	if i := slices.IndexFunc(l.rp.Segments, func(e checkpoint.Extent) bool { return e.Base == s.Base() }); i >= 0 {
		l.rp.Segments = slices.Clone(l.rp.Segments)
		l.rp.Segments[i].Aborted = txnindex.MarkOf(known.Aborted(s.Base(), rp))
	}
	l.mu.Unlock()
	if err := s.InstallAborted(); err != nil {
		// It is in memory, and the next sync tries again.
		l.dir.segmentError(l, "index of aborted transactions could not be written", err)
	}
	return nil
}

// Next returns the offset after the last batch. The slice must not be empty.
func (s *Slice) Next() int64 {
	if len(s.Parts) == 0 {
		return s.Loan.Next()
	}
	_, end := boundsOf(s.Parts)
	return end
}

// Shorten cuts the slice so that a reader of it must know of at most most aborted transactions, and
// returns those. The first batch stays: a log has fewer open transactions than that.
func (s *Slice) Shorten(list []txnindex.Entry, most int) []txnindex.Entry {
	if len(list) <= most {
		return list
	}
	firsts := make([]int64, len(list))
	for i := range list {
		firsts[i] = list[i].First
	}
	slices.Sort(firsts)
	end := max(firsts[most], record.Batch(s.Parts[0]).LastOffset()+1)
	for i, p := range s.Parts {
		n := trim(p, end, math.MaxInt, false)
		if n == len(p) {
			continue
		}
		for _, p := range s.Parts[i:] {
			s.Size -= len(p)
		}
		s.Size += n
		if s.Parts[i] = p[:n]; n > 0 {
			i++
		}
		s.Parts = s.Parts[:i]
		break
	}
	return slices.DeleteFunc(list, func(e txnindex.Entry) bool { return e.First >= end })
}
