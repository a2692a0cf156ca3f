package storage

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/bufpool"
)

// flushAt is how many bytes of a log wait in memory before they are worth a
// write to its segment.
const flushAt = 64 << 10

// memory accounts for the chunks of a directory. One bound covers what is
// deferred (in the journal, not yet in segments) and what is kept as a cache.
// At the bound appends wait in their logs' queues, which their requests'
// budget bounds. Internal topics have a reserve beyond it (I13): the bulk that clients
// write must not hold up what the broker itself needs to keep.
type memory struct {
	pool   bufpool.Pool
	chunks sync.Pool // of *chunk
	bound  int64

	deferred atomic.Int64 // bytes of chunks that are not in segments
	cached   atomic.Int64 // bytes of chunks that are

	mu      sync.Mutex
	stalled [2]map[*Log]struct{} // logs whose queue waits for memory; internal topics' are apart
	clean   []*Log               // logs with cached chunks, in turn for eviction
	press   func()               // asks for flushes; must not block
}

// alloc gives a new chunk of the log memory for up to size bytes.
func (m *memory) alloc(l *Log, size int) *chunk {
	c, _ := m.chunks.Get().(*chunk)
	if c == nil {
		c = &chunk{}
	}
	c.log = l
	l.mu.Lock()
	c.buf, c.at = l.tail.place(&m.pool, size)
	l.mu.Unlock()
	c.data = c.buf.Bytes()[c.at : c.at : c.at+size]
	c.cap = int64(size) // what pages and size classes add is less than that again
	m.deferred.Add(c.cap)
	return c
}

// joined takes a chunk for another use that became a part of another.
func (m *memory) joined(c *chunk) {
	*c = chunk{}
	m.chunks.Put(c)
}

// release gives back a chunk that was never published or is not wanted any more.
func (m *memory) release(c *chunk) {
	m.deferred.Add(-c.cap)
	c.buf.Release()
	m.resume()
}

// The kinds of logs, as an index of memory.stalled.
const (
	ofClients = iota
	ofBroker  // internal topics
)

// kindOf returns the kind of a log.
func kindOf(l *Log) int {
	if l.cfg.Load().Cleanup.Internal {
		return ofBroker
	}
	return ofClients
}

// room reports whether logs of a kind may take more.
func (m *memory) room(kind int) bool {
	bound := m.bound
	if kind == ofBroker {
		bound += m.bound / 8
	}
	return m.deferred.Load() < bound
}

// admit says whether a log may take more into memory; if not it is kicked when
// there is room. One group may exceed the bound.
func (m *memory) admit(l *Log) bool {
	if m.pressed() {
		m.press()
	}
	kind := kindOf(l)
	if m.room(kind) {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.room(kind) { // resume came first
		return true
	}
	if m.stalled[kind] == nil {
		m.stalled[kind] = map[*Log]struct{}{}
	}
	m.stalled[kind][l] = struct{}{}
	return false
}

// tight says that what becomes durable should be flushed at once: nobody but
// the logs that hold the memory can give it back.
func (m *memory) tight() bool {
	if m.pressed() {
		m.press()
	}
	return m.deferred.Load() > m.bound-m.bound/8
}

// pressed says that logs should be flushed although they have little, and
// relieved that it is enough. What lies between is what one relief flushes.
func (m *memory) pressed() bool  { return m.deferred.Load() > m.bound/2+m.bound/8 }
func (m *memory) relieved() bool { return m.deferred.Load() <= m.bound/2 }

// flushed moves chunks of a log from deferred to cached, and evicts where both
// together exceed the bound: from log after log the oldest chunks, what it has
// above an equal share or else a single one. So all keep the end of their tail,
// where their readers are.
func (m *memory) flushed(l *Log, bytes int64) {
	m.deferred.Add(-bytes)
	m.cached.Add(bytes)
	m.list(l)
	for over := m.over(); over > 0; over = m.over() {
		m.mu.Lock()
		if len(m.clean) == 0 {
			m.mu.Unlock()
			break
		}
		victim := m.clean[0]
		m.clean = m.clean[1:]
		victim.listed = false
		share := (m.bound - m.deferred.Load()) / int64(len(m.clean)+1)
		m.mu.Unlock()
		if m.evict(victim, over, share) {
			m.list(victim)
		}
	}
	m.resume()
}

// list puts a log behind those from which flushed evicts.
func (m *memory) list(l *Log) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !l.listed {
		l.listed = true
		m.clean = append(m.clean, l)
	}
}

// over is by how many bytes the memory exceeds its bound.
func (m *memory) over() int64 { return m.deferred.Load() + m.cached.Load() - m.bound }

// evict drops a log's oldest cached chunks: n bytes of what it has above share, and
// at least one. It says whether there are more.
func (m *memory) evict(l *Log, n, share int64) bool {
	l.mu.Lock()
	n = min(n, max(l.tail.cached-share, 1))
	gone := l.tail.evict(func(c *chunk) bool { n -= c.cap; return n+c.cap > 0 })
	more := l.tail.flushed > 0
	l.mu.Unlock()
	m.drop(gone)
	return more
}

// evictCached drops all that logs hold as a cache.
func (m *memory) evictCached(logs []*Log) {
	for _, l := range logs {
		m.evict(l, math.MaxInt64, 0)
	}
}

// evictAll drops everything that logs hold in memory; they are not used any more.
func (m *memory) evictAll(logs []*Log) {
	for _, l := range logs {
		l.mu.Lock()
		gone := l.tail.cutEnd(-1)
		l.mu.Unlock()
		m.drop(gone)
	}
}

// drop releases chunks that were cut from a log's tail.
func (m *memory) drop(gone []*chunk) {
	for _, c := range gone {
		if c.cached {
			m.cached.Add(-c.cap)
		} else {
			m.deferred.Add(-c.cap)
		}
		c.buf.Release()
	}
	m.resume()
}

// resume kicks the logs that wait and for which there is room.
func (m *memory) resume() {
	for kind := range m.stalled {
		if !m.room(kind) {
			continue
		}
		m.mu.Lock()
		logs := m.stalled[kind]
		m.stalled[kind] = nil
		m.mu.Unlock()
		for l := range logs {
			l.Commit(nil)
		}
	}
}
