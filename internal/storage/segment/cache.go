package segment

import (
	"container/list"
	"sync"
)

// indexCache bounds the memory of the indexes of segments without a writer, evicting the least
// recently used ones. Indexes larger than the bound stay until others are used.
type indexCache struct {
	mu    sync.Mutex
	bound int64
	held  int64
	used  list.List // of *Segment, most recently used in front
}

// cached is the cache's state of a segment, guarded by indexCache.mu. A segment enters the cache
// only while its own mu is held.
type cached struct {
	at    *list.Element // nil: not in the cache
	bytes int64
}

// use records that the segment's indexes, of n bytes, are in memory and were used. It returns the
// segments whose indexes must be evicted.
func (c *indexCache) use(s *Segment, n int64) (victims []*Segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.cached.at == nil {
		s.cached.at = c.used.PushFront(s)
	}
	c.used.MoveToFront(s.cached.at)
	c.held += n - s.cached.bytes
	s.cached.bytes = n
	for c.held > c.bound && c.used.Len() > 1 {
		v := c.used.Back().Value.(*Segment)
		c.removeLocked(v)
		victims = append(victims, v)
	}
	return victims
}

// remove removes the segment from the cache.
func (c *indexCache) remove(s *Segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(s)
}

func (c *indexCache) removeLocked(s *Segment) {
	if s.cached.at != nil {
		c.used.Remove(s.cached.at)
		c.held -= s.cached.bytes
		s.cached = cached{}
	}
}

func (c *indexCache) contains(s *Segment) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.cached.at != nil
}

// BoundIndexes bounds the memory of the indexes of segments without a writer, in bytes; the default
// is 16 MiB. It must be called before the first segment is opened.
func (s *Files) BoundIndexes(bytes int64) { s.indexes.bound = bytes }

// IndexBytes returns the memory that these indexes use.
func (s *Files) IndexBytes() int64 {
	s.indexes.mu.Lock()
	defer s.indexes.mu.Unlock()
	return s.indexes.held
}

// cacheIndexLocked puts the indexes into the cache, unless the segment has a writer, and returns
// the segments for which evict must be called. The caller must hold mu.
func (s *Segment) cacheIndexLocked() []*Segment {
	if s.appending || s.x == nil {
		return nil
	}
	return s.files.indexes.use(s, s.x.bytes())
}

// evict drops the indexes of segments that the cache has released. The caller must not hold the mu
// of any segment.
func evict(victims []*Segment) {
	for _, s := range victims {
		s.mu.Lock()
		if !s.appending && !s.files.indexes.contains(s) { // otherwise they were used again
			s.dropIndexLocked()
		}
		s.mu.Unlock()
	}
}

// dropIndexLocked drops the indexes from memory. Unsaved entries must be built again. The caller
// must hold mu.
func (s *Segment) dropIndexLocked() {
	s.files.indexes.remove(s)
	if s.x != nil && !s.x.saved() {
		s.stale, s.known = true, false
	}
	s.x = nil
}

// sealed ends the time in which the indexes stay in memory for the writer. It drops saved indexes
// at once.
func (s *Segment) sealed() {
	s.aborted.drop()
	s.mu.Lock()
	s.appending = false
	var victims []*Segment
	if s.x != nil && s.x.saved() && s.stage.Load() == live {
		s.dropIndexLocked()
	} else {
		victims = s.cacheIndexLocked()
	}
	s.mu.Unlock()
	evict(victims)
}

// forgetIndex drops the indexes of a segment that will not be read again.
func (s *Segment) forgetIndex() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropIndexLocked()
}
