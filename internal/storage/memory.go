package storage

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/bufpool"
)

// flushAt is the number of unflushed bytes of a log that are worth a write to its segment.
const flushAt = 64 << 10

// memory accounts for the chunks of a directory. One limit covers the deferred chunks (in the
// journal, not yet in segments) and the cached ones. At the limit appends wait in their logs'
// queues, whose size is limited by the requests' memory budget. Internal topics and markers have a
// reserve above the limit (I13), so that clients' bulk loads do not delay the broker's own records.
type memory struct {
	// After a Put, the runtime keeps the object that has the sync.Pool for two garbage collections:
	// it must not be a closed directory with all that this refers to.
	pool   *bufpool.Pool
	chunks *sync.Pool // of *chunk
	bound  int64

	deferred atomic.Int64 // bytes of chunks that are not in segments
	cached   atomic.Int64 // bytes of chunks that are in segments

	mu           sync.Mutex
	stalled      [2]map[*Log]struct{} // logs whose queue waits for memory, by kind
	cachedLogs   []*Log               // logs with cached chunks, in eviction order
	requestFlush func()               // requests flushes; must not block
}

// alloc returns a new chunk of the log with memory for up to size bytes.
func (m *memory) alloc(l *Log, size int) *chunk {
	c, _ := m.chunks.Get().(*chunk)
	if c == nil {
		c = &chunk{}
	}
	c.log = l
	l.mu.Lock()
	c.buf, c.at = l.tail.reserve(m.pool, size)
	l.mu.Unlock()
	c.data = c.buf.Bytes()[c.at : c.at : c.at+size]
	c.cap = int64(size) // pages and size classes add less than that
	m.deferred.Add(c.cap)
	return c
}

// gapSize is what a gap counts for: about the size of its chunk, which has no batches.
const gapSize = 512

// charge counts n more bytes for a chunk that was not published yet.
func (m *memory) charge(c *chunk, n int64) {
	c.cap += n
	m.deferred.Add(n)
}

// joined recycles a chunk that was joined to another one.
func (m *memory) joined(c *chunk) {
	*c = chunk{}
	m.chunks.Put(c)
}

// release releases a chunk that was never published.
func (m *memory) release(c *chunk) {
	m.deferred.Add(-c.cap)
	c.buf.Release()
	m.resume()
}

// The kinds of logs, as an index of memory.stalled.
const (
	ofClients = iota
	ofBroker  // internal topics, and markers in any topic
)

// kindOf returns the kind of a log.
func kindOf(l *Log) int {
	if l.cfg.Load().Cleanup.Internal {
		return ofBroker
	}
	return ofClients
}

// hasSpace reports whether logs of a kind may use more memory.
func (m *memory) hasSpace(kind int) bool {
	bound := m.bound
	if kind == ofBroker {
		bound += m.bound / 8
	}
	return m.deferred.Load() < bound
}

// admit reports whether a log may commit another group with the memory of a kind of logs. If not,
// resume commits the log's queue when that is free. One group may exceed the limit.
func (m *memory) admit(l *Log, kind int) bool {
	if m.underPressure() {
		m.requestFlush()
	}
	if m.hasSpace(kind) {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hasSpace(kind) { // resume ran first
		return true
	}
	if m.stalled[kind] == nil {
		m.stalled[kind] = map[*Log]struct{}{}
	}
	m.stalled[kind][l] = struct{}{}
	return false
}

// nearLimit reports whether durable chunks should be flushed at once. Only flushing releases
// memory.
func (m *memory) nearLimit() bool {
	if m.underPressure() {
		m.requestFlush()
	}
	return m.deferred.Load() > m.bound-m.bound/8
}

// underPressure reports whether logs should be flushed although they have few bytes, and
// pressureRelieved whether enough was flushed. The difference between their limits is what one call
// of flushLargest flushes.
func (m *memory) underPressure() bool    { return m.deferred.Load() > m.bound/2+m.bound/8 }
func (m *memory) pressureRelieved() bool { return m.deferred.Load() <= m.bound/2 }

// flushed moves chunks of a log from deferred to cached, and evicts chunks while both together
// exceed the limit. It takes the logs in turn and evicts the oldest chunks beyond an equal share of
// the memory, or at least one chunk. So every log keeps the end of its tail, where most readers
// are.
func (m *memory) flushed(l *Log, bytes int64) {
	m.deferred.Add(-bytes)
	m.cached.Add(bytes)
	l.countDebt()
	m.list(l)
	for over := m.over(); over > 0; over = m.over() {
		m.mu.Lock()
		if len(m.cachedLogs) == 0 {
			m.mu.Unlock()
			break
		}
		victim := m.cachedLogs[0]
		m.cachedLogs = m.cachedLogs[1:]
		victim.listed = false
		share := (m.bound - m.deferred.Load()) / int64(len(m.cachedLogs)+1)
		m.mu.Unlock()
		if m.evict(victim, over, share) {
			m.list(victim)
		}
	}
	m.resume()
}

// list appends a log to the eviction order.
func (m *memory) list(l *Log) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !l.listed {
		l.listed = true
		m.cachedLogs = append(m.cachedLogs, l)
	}
}

// over returns by how many bytes the memory exceeds its limit.
func (m *memory) over() int64 { return m.deferred.Load() + m.cached.Load() - m.bound }

// evict evicts a log's oldest cached chunks: up to n bytes of its excess over share, but at least
// one chunk. It reports whether others are left.
func (m *memory) evict(l *Log, n, share int64) bool {
	l.mu.Lock()
	n = min(n, max(l.tail.cached-share, 1))
	gone := l.tail.evict(func(c *chunk) bool { n -= c.cap; return n+c.cap > 0 })
	more := l.tail.flushed > 0
	l.mu.Unlock()
	m.drop(gone)
	return more
}

// evictCached evicts all cached chunks of logs.
func (m *memory) evictCached(logs []*Log) {
	for _, l := range logs {
		m.evict(l, math.MaxInt64, 0)
	}
}

// evictAll drops all chunks of logs that are no longer used.
func (m *memory) evictAll(logs []*Log) {
	for _, l := range logs {
		l.mu.Lock()
		gone := l.tail.cutEnd(-1)
		l.mu.Unlock()
		m.drop(gone)
	}
}

// drop releases chunks that were removed from a log's tail.
func (m *memory) drop(gone []*chunk) {
	for _, c := range gone {
		if c.cached {
			m.cached.Add(-c.cap)
		} else {
			m.deferred.Add(-c.cap)
		}
		c.buf.Release()
	}
	if n := len(gone); n > 0 && !gone[n-1].cached {
		gone[n-1].log.countDebt()
	}
	m.resume()
}

// resume commits the queues of logs that wait for memory, if there is some.
func (m *memory) resume() {
	for kind := range m.stalled {
		if !m.hasSpace(kind) {
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
