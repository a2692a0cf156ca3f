package storage

import (
	"sync"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/membuf"
)

// flushAt is how many bytes of a log wait in memory before they are worth a
// write to its segment.
const flushAt = 64 << 10

// memory accounts for the chunks of a directory. One bound covers what is
// deferred (in the journal, not yet in segments) and what is kept as a cache.
// At the bound appends wait in their logs' queues, which their requests'
// budget bounds.
type memory struct {
	pool  membuf.Pool
	bound int64

	deferred atomic.Int64 // bytes of chunks that are not in segments
	cached   atomic.Int64 // bytes of chunks that are

	mu      sync.Mutex
	stalled map[*Log]struct{} // logs whose queue waits for memory
	clean   []*Log            // logs with cached chunks, the longest flushed first
	press   func()            // asks for flushes; must not block
}

func (m *memory) alloc(c *chunk, size int) {
	c.buf = m.pool.Get(size)
	c.cap = int64(size) // what the size class adds is at most a third
	m.deferred.Add(c.cap)
}

// release gives back a chunk that was never published or is not wanted any more.
func (m *memory) release(c *chunk) {
	m.deferred.Add(-c.cap)
	c.buf.Release()
	m.resume()
}

// admit says whether a log may take more into memory; if not it is kicked when
// there is room. One group may exceed the bound.
func (m *memory) admit(l *Log) bool {
	d := m.deferred.Load()
	if d > m.bound/2 {
		m.press()
	}
	if d < m.bound {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deferred.Load() < m.bound { // resume came first
		return true
	}
	if m.stalled == nil {
		m.stalled = map[*Log]struct{}{}
	}
	m.stalled[l] = struct{}{}
	return false
}

// tight says that what becomes durable should be flushed at once: nobody but
// the logs that hold the memory can give it back.
func (m *memory) tight() bool {
	d := m.deferred.Load()
	if d > m.bound/2 {
		m.press()
	}
	return d > m.bound-m.bound/4
}

// flushed moves chunks of a log from deferred to cached, and evicts the oldest
// cache where both together exceed the bound.
func (m *memory) flushed(l *Log, bytes int64) {
	m.deferred.Add(-bytes)
	m.cached.Add(bytes)
	m.mu.Lock()
	if n := len(m.clean); n == 0 || m.clean[n-1] != l {
		m.clean = append(m.clean, l)
	}
	m.mu.Unlock()
	for m.deferred.Load()+m.cached.Load() > m.bound {
		m.mu.Lock()
		if len(m.clean) == 0 {
			m.mu.Unlock()
			break
		}
		victim := m.clean[0]
		m.clean = m.clean[1:]
		m.mu.Unlock()
		m.evict(victim)
	}
	m.resume()
}

// evict drops a log's cached chunks.
func (m *memory) evict(l *Log) {
	l.mu.Lock()
	gone := l.tail.evict()
	l.mu.Unlock()
	for _, c := range gone {
		m.cached.Add(-c.cap)
		c.buf.Release()
	}
}

// evictAll drops everything that logs hold in memory; they are not used any more.
func (m *memory) evictAll(logs []*Log) {
	for _, l := range logs {
		m.evict(l)
		l.mu.Lock()
		gone := l.tail.cutEnd(-1)
		l.mu.Unlock()
		m.drop(gone, 0)
	}
}

// drop releases chunks that were cut from a log's tail. cached says how many of
// them were in segments.
func (m *memory) drop(gone []*chunk, cached int) {
	for i, c := range gone {
		if i < cached {
			m.cached.Add(-c.cap)
		} else {
			m.deferred.Add(-c.cap)
		}
		c.buf.Release()
	}
	m.resume()
}

// resume kicks the logs that wait, if there is room.
func (m *memory) resume() {
	if m.deferred.Load() >= m.bound {
		return
	}
	m.mu.Lock()
	logs := m.stalled
	m.stalled = nil
	m.mu.Unlock()
	for l := range logs {
		l.Commit()
	}
}
