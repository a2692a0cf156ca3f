package storage

import (
	"errors"
	"math/bits"
	"slices"
	"sort"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/journal"
)

// chunk is a run of whole batches in pooled memory: one journal entry, one piece of a segment
// write, one unit of the tail cache. When the journal has written a small chunk, the chunk is
// joined to the previous one, so that even with 10,000 logs a record in memory takes little more
// than its bytes.
type chunk struct {
	log     *Log
	buf     *bufpool.Buffer
	at      int    // where data begins in buf
	data    []byte // the batches, in buf
	base    int64  // first offset
	next    int64  // offset after the last one
	maxTs   int64
	records int
	gap     bool  // the leader's log has no batches in [base, next); data is empty
	epoch   int32 // of a gap
	cap     int64 // bytes accounted for the chunk
	queued  time.Time
	entry   journal.Entry

	// Guarded by Log.mu.
	first   journal.LSN // of the frame that holds the first batch; 0 if it is not written yet
	last    journal.LSN // of the frame that holds the last batch; 0 if it is not written yet
	firstTs int64       // maxTs before other chunks were joined to this one
	ready   bool        // the frame is durable: the chunk may be written to a segment
	dropped bool        // the journal dropped it
	writing bool        // it is part of a segment write: nothing may be joined to it
	cached  bool        // it is also in a segment; other chunks are deferred
}

// setLSN records that a single frame holds the chunk.
func (c *chunk) setLSN(lsn journal.LSN) { c.first, c.last = lsn, lsn }

// Written implements journal.Owner.
func (c *chunk) Written(*journal.Entry) {
	buf := c.buf
	c.log.chunkWritten(c) // c must not be used from here on
	buf.Release()
}

// Durable implements journal.Owner.
func (c *chunk) Durable(_ *journal.Entry, err error) {
	defer c.buf.Release()
	switch {
	case err == nil:
		c.log.chunkDurable(c) // c must not be used from here on
	case errors.Is(err, journal.ErrDropped):
		c.log.mu.Lock()
		c.dropped = true
		c.log.mu.Unlock()
	} // otherwise the directory reverts all logs
}

// tail is the newest part of a log, in memory: chunks in offset order. The flushed ones are a
// cache; the others are only here and in the journal. Guarded by Log.mu.
type tail struct {
	chunks  []*chunk
	flushed int   // chunks[:flushed] are in segments too
	bytes   int64 // of chunks[flushed:]
	cached  int64 // bytes accounted for chunks[:flushed]

	page *bufpool.Buffer // holds the next small chunk behind its used bytes; may be nil
	used int
}

// pageMax is the maximum size of a page. A page is about as large as the log's unflushed data, so
// that at most half of the bytes of all pages are unused.
const pageMax = 16 << 10

// reserve returns memory for a chunk of up to size bytes, with a reference for the caller, and the
// position of the chunk in it.
func (t *tail) reserve(p *bufpool.Pool, size int) (*bufpool.Buffer, int) {
	if t.page != nil && size <= t.page.Len()-t.used {
		t.page.Retain()
		return t.page, t.used
	}
	if size > pageMax/4 {
		return p.Get(size), 0
	}
	t.dropPage()
	n := pageMax
	if t.bytes < pageMax {
		n = 1 << bits.Len(uint(t.bytes))
	}
	if n < 2*size {
		return p.Get(size), 0
	}
	t.page = p.Get(n)
	t.page.Retain()
	return t.page, 0
}

func (t *tail) dropPage() {
	if t.page != nil {
		t.page.Release()
		t.page, t.used = nil, 0
	}
}

func (t *tail) add(c *chunk) {
	t.chunks = append(t.chunks, c)
	t.bytes += int64(len(c.data))
	if c.buf == t.page {
		t.used = c.at + len(c.data)
	}
}

// join appends chunk c, which is in the journal, to the chunk before it, and reports whether it
// did. Both must hold batches, be in the same state and be adjacent in one page. Together they have
// at most max bytes and timestamps at most ms apart, and no segment write may hold the first one.
// Nothing refers to c afterwards.
func (t *tail) join(c *chunk, max, ms int64) bool {
	i := t.find(c.base)
	if i <= t.flushed || i >= len(t.chunks) || t.chunks[i] != c {
		return false
	}
	to := t.chunks[i-1]
	if to.gap || c.gap || to.buf != c.buf || to.at+len(to.data) != c.at || to.ready != c.ready || to.last == 0 || to.writing ||
		int64(len(to.data)+len(c.data)) > max || c.maxTs-to.firstTs > ms {
		return false
	}
	to.data = to.buf.Bytes()[to.at : c.at+len(c.data) : c.at+len(c.data)]
	to.next, to.last = c.next, c.last
	if c.maxTs > to.maxTs {
		to.maxTs = c.maxTs
	}
	to.records += c.records
	to.cap += c.cap
	t.chunks = slices.Delete(t.chunks, i, i+1)
	c.buf.Release()
	return true
}

// durable marks the chunks up to an LSN as ready. It returns their end offset, -1 if there are
// none, and reports whether other chunks are written and not durable.
func (t *tail) durable(lsn journal.LSN) (end int64, rest bool) {
	waiting := t.chunks[t.flushed:]
	i := searchNear(waiting, func(c *chunk) bool { return !c.ready })
	for end = -1; i < len(waiting) && waiting[i].last != 0 && waiting[i].last <= lsn; i++ {
		waiting[i].ready = true
		end = waiting[i].next
	}
	return end, i < len(waiting) && waiting[i].last != 0
}

// markWritten marks as ready everything that a failed journal had written, since it may have been
// acknowledged. All chunks before a written one were also written.
func (t *tail) markWritten() {
	n := len(t.chunks)
	for n > t.flushed && t.chunks[n-1].last == 0 {
		n--
	}
	for _, c := range t.chunks[t.flushed:n] {
		if c.last == 0 {
			c.setLSN(c.entry.LSN)
			c.firstTs = c.maxTs
		}
		c.ready = true
	}
}

// setFlushed records that the first n unflushed chunks are in segments.
func (t *tail) setFlushed(n int) {
	for _, c := range t.chunks[t.flushed : t.flushed+n] {
		t.bytes -= int64(len(c.data))
		t.cached += c.cap
		c.cached = true
	}
	t.flushed += n
	if t.flushed == len(t.chunks) {
		t.dropPage() // an idle log reserves no memory
	}
}

// deferredBytes returns the bytes accounted for the chunks that are unflushed.
func (t *tail) deferredBytes() (bytes int64) {
	for _, c := range t.chunks[t.flushed:] {
		bytes += c.cap
	}
	return bytes
}

// cacheAll turns all chunks into a cache, and returns the bytes accounted for those that were
// unflushed.
func (t *tail) cacheAll() (bytes int64) {
	bytes = t.deferredBytes()
	t.setFlushed(len(t.chunks) - t.flushed)
	return bytes
}

func (t *tail) firstUnflushed() *chunk {
	if t.flushed < len(t.chunks) {
		return t.chunks[t.flushed]
	}
	return nil
}

// start returns the first offset in the tail, and false if the tail is empty.
func (t *tail) start() (int64, bool) {
	if len(t.chunks) == 0 {
		return 0, false
	}
	return t.chunks[0].base, true
}

// end returns the end offset of the tail, 0 if it is empty.
func (t *tail) end() int64 {
	if n := len(t.chunks); n > 0 {
		return t.chunks[n-1].next
	}
	return 0
}

// find returns the index of the chunk that holds offset, or of the first one after it.
func (t *tail) find(offset int64) int {
	return searchNear(t.chunks, func(c *chunk) bool { return c.next > offset })
}

// searchNear is sort.Search from the end on: appends, acknowledgements and followers that are in
// sync ask for the newest chunks. If many partitions are written to, each chunk that is examined is
// a cache miss.
func searchNear(chunks []*chunk, f func(*chunk) bool) int {
	low, high, step := 0, len(chunks), 1 // f is true from high on
	for high > 0 && low == 0 {
		if at := max(high-step, 0); f(chunks[at]) {
			high, step = at, 2*step
		} else {
			low = at + 1
		}
	}
	return low + sort.Search(high-low, func(i int) bool { return f(chunks[low+i]) })
}

// flushable returns the chunks that may be written to a segment now, up to about max bytes. No
// further chunk is joined to them.
func (t *tail) flushable(max int64) []*chunk {
	end, n := t.flushed, int64(0)
	for end < len(t.chunks) && t.chunks[end].ready && n < max {
		n += int64(len(t.chunks[end].data))
		end++
	}
	if end > t.flushed {
		t.chunks[end-1].writing = true
	}
	return slices.Clone(t.chunks[t.flushed:end]) // a copy: evictions change the tail's list
}

// unflushedBytes returns the bytes that are not in segments.
func (t *tail) unflushedBytes() int64 { return t.bytes }

// evict removes the oldest cached chunks as long as goes returns true, and returns them for
// release.
func (t *tail) evict(goes func(*chunk) bool) []*chunk {
	end := 0
	for end < t.flushed && goes(t.chunks[end]) {
		end++
	}
	gone := slices.Clone(t.chunks[:end])
	for _, c := range gone {
		t.cached -= c.cap
	}
	clear(t.chunks[:end]) // the array must not keep them alive
	if t.chunks = t.chunks[end:]; len(t.chunks) == 0 {
		t.chunks = nil // an idle log reserves no memory
	}
	t.flushed -= end
	return gone
}

// cutEnd removes and returns the chunks that end beyond end. Chunks hold whole groups. A log is
// only truncated within a group by Truncate, which flushes first.
func (t *tail) cutEnd(end int64) []*chunk {
	i := t.find(end)
	gone := t.chunks[i:]
	for _, c := range gone {
		if c.cached {
			t.cached -= c.cap
		} else {
			t.bytes -= int64(len(c.data))
		}
	}
	if t.chunks = t.chunks[:i:i]; i == 0 {
		t.chunks = nil // an idle log reserves no memory
	}
	t.flushed = min(t.flushed, i)
	t.dropPage()
	return gone
}

// batchAt returns the position in the chunk of the batch that holds offset, or of the first one
// after it.
func (c *chunk) batchAt(offset int64) int {
	p, at := c.data, 0
	for at < len(p) {
		b, rest, err := record.Next(p[at:])
		if err != nil || b.LastOffset() >= offset {
			break
		}
		at = len(p) - len(rest)
	}
	return at
}
