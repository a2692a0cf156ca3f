package segment

import (
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/record"
)

// loadForAppend loads the indexes and timestamps of a segment that this process did not create, so
// that appends can continue them. If that fails, appends add no entries, and a lookup builds the
// indexes.
func (s *Segment) loadForAppend(h *handle) {
	s.mu.Lock()
	if !s.appending {
		s.appending = true
		s.files.indexes.remove(s)
	}
	known := s.known && s.x != nil
	s.mu.Unlock()
	if !known {
		_, _, _ = s.build(h) // a lookup reports the error
	}
}

// note updates the indexes, the timestamps and the size for batches appended at a position: all at
// once, so that a goroutine that builds indexes misses none of them.
func (s *Segment) note(chunks [][]byte, at int64, interval int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	seen := verifying{v: &s.files.verified, content: s.content.Load()}
	for _, c := range chunks {
		s.noteChunk(c, at, interval, &seen)
		at += int64(len(c))
	}
	seen.end()
	s.size.Store(at)
}

func (s *Segment) noteChunk(c []byte, at int64, interval int, seen *verifying) {
	for len(c) > 0 {
		b, rest, err := record.Next(c)
		if err != nil {
			return // chunks hold whole batches; a reader reports anything that does not parse
		}
		s.noteBatch(b, at, interval)
		seen.batch(at, int64(len(b)), b.LastOffset()+1)
		at += int64(len(b))
		c = rest
	}
}

// noteBatch updates the indexes for a batch at a position. An offset too far from the base for an
// index entry gets none: a follower's leader may have removed more than 2^31 offsets by compaction.
// The segment then ends with the chunk that holds it (Full), so that a lookup reads no more than
// that.
func (s *Segment) noteBatch(b record.Batch, at int64, interval int) {
	last := b.LastOffset()
	if ts := b.Newest(); ts > s.maxTs {
		s.maxTs, s.maxAt = ts, last
	}
	if at == 0 {
		s.first = first{b.Newest(), true}
	}
	if s.x != nil && s.known && s.since > interval && at > 0 && last-s.base <= math.MaxInt32 {
		s.x.add(offsetEntry{rel: int32(last - s.base), pos: int32(at)})
		s.noteTime()
		s.since = 0
	}
	s.since += len(b)
}

// noteTime adds the largest timestamp so far to the time index. The entry means that everything up
// to its offset is as old or older, so the timestamp must be that of the whole file. The caller
// must hold mu.
func (s *Segment) noteTime() {
	if s.x != nil && s.known && s.maxTs >= 0 && s.maxAt-s.base <= math.MaxInt32 {
		s.x.addTime(timeEntry{ts: s.maxTs, rel: int32(s.maxAt - s.base)})
	}
}

// SaveIndex writes the entries that the index files lack. It does nothing for a segment that is not
// installed. The files are caches: after a failure they are rewritten later, and lookups take
// longer.
func (s *Segment) SaveIndex() {
	s.saving.Lock()
	defer s.saving.Unlock()
	if s.stage.Load() != live || s.unindexed { // the index files belong to another segment
		return
	}
	s.mu.Lock()
	x := s.x
	if x == nil || x.saved() {
		s.mu.Unlock()
		return
	}
	now := *x
	s.mu.Unlock()
	err := now.save(s.files.fs, s.stem())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.x != x {
		return
	}
	if err != nil {
		x.savedOffsets, x.savedTimes = -1, -1
		return
	}
	x.savedOffsets, x.savedTimes, s.stale = now.savedOffsets, now.savedTimes, false
}

// truncateIndex removes the index entries for batches at or beyond size, where offset next begins.
// Index files with such entries are deleted durably before other batches take that place: for those
// batches an entry could look right and be wrong.
func (s *Segment) truncateIndex(size, next int64) error {
	x, _ := s.indexes()
	s.saving.Lock() // the entries must not be saved meanwhile
	defer s.saving.Unlock()
	s.mu.Lock()
	if s.x != nil {
		x = *s.x
	}
	x.truncate(size, int32(min(next-s.base, math.MaxInt32)))
	s.x = &x
	s.changes++
	victims := s.cacheIndexLocked()
	s.mu.Unlock()
	evict(victims)
	if x.savedOffsets >= 0 {
		return nil
	}
	if err := s.removeFiles(indexSuffixes); err != nil {
		return fmt.Errorf("truncate index: %w", err)
	}
	if err := s.files.fs.SyncDir(s.dir); err != nil {
		return fmt.Errorf("truncate index: %w", err)
	}
	return nil
}
