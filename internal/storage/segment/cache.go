package segment

import (
	"container/list"
	"sync"
)

// indexCache bounds the memory of the indexes of segments to which nobody appends: the
// least recently used ones go. One that is larger than the bound stays until another
// one is used.
type indexCache struct {
	mu    sync.Mutex
	bound int64
	held  int64
	used  list.List // of *Segment, most recently used in front
}

// cached is what the cache knows of a segment, guarded by indexCache.mu. A segment comes
// into the cache only while its own mu is held.
type cached struct {
	at    *list.Element // nil: not in the cache
	bytes int64
}

// use notes that the segment's indexes, of n bytes, are in memory and were used, and
// returns the segments whose indexes are to go.
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

// remove takes the segment out of the cache.
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

// BoundIndexes bounds the memory of the indexes of segments to which nobody appends; of
// new Files it is 16 MiB. It must be called before the first segment is opened.
func (s *Files) BoundIndexes(bytes int64) { s.indexes.bound = bytes }

// IndexBytes returns the memory that these indexes take now.
func (s *Files) IndexBytes() int64 {
	s.indexes.mu.Lock()
	defer s.indexes.mu.Unlock()
	return s.indexes.held
}

// cacheIndexLocked puts the indexes into the cache, unless they are those of a segment to
// which somebody appends, and returns what evict is to be called for. The caller holds mu.
func (s *Segment) cacheIndexLocked() []*Segment {
	if s.appending || s.x == nil {
		return nil
	}
	return s.files.indexes.use(s, s.x.bytes())
}

// evict drops the indexes of segments that the cache has let go of. The caller holds no
// segment's mu.
func evict(victims []*Segment) {
	for _, s := range victims {
		s.mu.Lock()
		if !s.appending && !s.files.indexes.contains(s) { // otherwise it was used again
			s.dropIndexLocked()
		}
		s.mu.Unlock()
	}
}

// dropIndexLocked drops the indexes from memory. What no file holds must be built
// again. The caller holds mu.
func (s *Segment) dropIndexLocked() {
	s.files.indexes.remove(s)
	if s.x != nil && !s.x.saved() {
		s.stale, s.known = true, false
	}
	s.x = nil
}

// sealed ends the time in which the indexes stay in memory because somebody appends.
// Those that the files hold go at once.
func (s *Segment) sealed() {
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

// forgetIndex drops the indexes of a segment that nobody is to read any more.
func (s *Segment) forgetIndex() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropIndexLocked()
}
