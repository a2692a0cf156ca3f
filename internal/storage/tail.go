package storage

import (
	"sort"
	"time"

	"github.com/chronik-io/chronik/internal/membuf"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/journal"
)

// chunk is a run of whole batches in pooled memory: one entry of the journal,
// one piece of a segment write, one unit of the tail cache.
type chunk struct {
	log     *Log
	buf     *membuf.Buffer
	data    []byte // the batches, in buf
	base    int64  // first offset
	next    int64  // offset after the last one
	maxTs   int64
	records int
	cap     int64 // bytes accounted for it
	queued  time.Time
	entry   journal.Entry

	// Guarded by Log.mu.
	lsn   journal.LSN // of the frame that holds it; 0 if none is durable yet
	ready bool        // may be written to a segment
}

// Durable is journal.Owner: the chunk's frame is durable.
func (c *chunk) Durable(_ *journal.Entry, err error) {
	if err == nil {
		c.log.chunkDurable(c)
	} // otherwise the directory reverts every log as a whole
}

// tail is the newest part of a log in memory: chunks in offset order, the
// flushed ones (a cache) before those that exist nowhere but here and in the
// journal. It is guarded by Log.mu.
type tail struct {
	chunks  []*chunk
	flushed int   // chunks[:flushed] are in segments too
	bytes   int64 // in chunks[flushed:]
}

func (t *tail) add(c *chunk) {
	t.chunks = append(t.chunks, c)
	t.bytes += int64(len(c.data))
}

// setFlushed notes that the first n unflushed chunks are in segments now.
func (t *tail) setFlushed(n int) {
	for _, c := range t.chunks[t.flushed : t.flushed+n] {
		t.bytes -= int64(len(c.data))
	}
	t.flushed += n
}

func (t *tail) firstUnflushed() *chunk {
	if t.flushed < len(t.chunks) {
		return t.chunks[t.flushed]
	}
	return nil
}

// start is the first offset that the tail holds, and false if it is empty.
func (t *tail) start() (int64, bool) {
	if len(t.chunks) == 0 {
		return 0, false
	}
	return t.chunks[0].base, true
}

// find returns the index of the chunk that holds offset, or of the first one
// after it.
func (t *tail) find(offset int64) int {
	return sort.Search(len(t.chunks), func(i int) bool { return t.chunks[i].next > offset })
}

// flushable returns the chunks that may be written to a segment now, at most
// about max bytes of them.
func (t *tail) flushable(max int64) []*chunk {
	end, n := t.flushed, int64(0)
	for end < len(t.chunks) && t.chunks[end].ready && n < max {
		n += int64(len(t.chunks[end].data))
		end++
	}
	return t.chunks[t.flushed:end:end]
}

// unflushedBytes counts what is not in segments.
func (t *tail) unflushedBytes() int64 { return t.bytes }

// cachedBytes is what the cached chunks account for.
func (t *tail) cachedBytes() (n int64) {
	for _, c := range t.chunks[:t.flushed] {
		n += c.cap
	}
	return n
}

// evict drops the oldest cached chunks, until they account for n bytes or none is
// left, and returns them for release.
func (t *tail) evict(n int64) []*chunk {
	end := 0
	for ; end < t.flushed && n > 0; end++ {
		n -= t.chunks[end].cap
	}
	gone := t.chunks[:end:end]
	// A copy, or the old array would go on holding what it doesn't show any more.
	t.chunks = append([]*chunk(nil), t.chunks[end:]...)
	t.flushed -= end
	return gone
}

// cutEnd drops the chunks from the first on that ends beyond end, and returns
// them. Chunks hold whole groups, and logs are cut at their borders but by a
// truncation, which flushes first.
func (t *tail) cutEnd(end int64) []*chunk {
	i := sort.Search(len(t.chunks), func(i int) bool { return t.chunks[i].next > end })
	gone := t.chunks[i:]
	for _, c := range t.chunks[max(i, t.flushed):] {
		t.bytes -= int64(len(c.data))
	}
	t.chunks = t.chunks[:i:i]
	t.flushed = min(t.flushed, i)
	return gone
}

// batchAt returns the position in the chunk of the batch that holds offset, or
// of the first one after it.
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
