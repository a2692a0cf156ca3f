package storage

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// The memory of a log's small records is little more than their bytes: the records gradually share
// chunks and pages, even while they are read, and an idle log keeps no page.
func TestSmallRecordsShareMemory(t *testing.T) {
	const n = 300
	d := mustOpen(t, crashfs.New(1), "sync", large) // no sweep between the records
	l := makeLogs(t, d, 1, "sync")[0]
	var held []Slice
	for i := range int64(n) {
		put(t, l, 1, 100)
		if i%7 != 0 {
			continue
		}
		s, err := l.Read(i, i+1, 1, true)
		if err != nil || s.Size == 0 {
			t.Fatalf("offset %d: %d bytes, %v", i, s.Size, err)
		}
		held = append(held, s)
	}
	if chunks, pages := len(l.memoryHeld()), d.memory.pool.Outstanding(); chunks > n/10 || pages > n/10 {
		t.Errorf("%d records are held in %d chunks and %d buffers", n, chunks, pages)
	}
	for i, s := range held { // chunks that were joined later did not change it
		b := record.Batch(s.Parts[0])
		if b.BaseOffset() != int64(7*i) || b.CheckCRC() != nil || b.Size() != s.Size {
			t.Errorf("slice %d holds offset %d: %v", i, b.BaseOffset(), b.CheckCRC())
		}
		s.Release()
	}
	holds(t, l, n)
	must(t, l.flush())
	d.memory.evict(l, math.MaxInt64, 0)
	if left := d.memory.pool.Outstanding(); left != 0 {
		t.Errorf("%d buffers are left of a log that has everything in segments", left)
	}
	holds(t, l, n)
}

// A chunk joins the previous one only if that loses nothing: not while that one is being written or
// is in a segment, and not across pages, limits or times.
func TestJoin(t *testing.T) {
	var pool bufpool.Pool
	page := pool.Get(1000)
	defer page.Release()
	for _, c := range []struct {
		name string
		with func(tl *tail, to, c *chunk)
		want bool
	}{
		{"right behind it in its page", func(*tail, *chunk, *chunk) {}, true},
		{"behind bytes of another", func(_ *tail, _, c *chunk) { c.at = 60 }, false},
		{"in another page", func(_ *tail, _, c *chunk) { c.buf.Release(); c.buf = pool.Get(1000) }, false},
		{"behind one that is not durable", func(_ *tail, to, _ *chunk) { to.ready = false }, false},
		{"behind one that is being written", func(tl *tail, _, c *chunk) { c.ready = false; tl.flushable(1 << 20); c.ready = true }, false},
		{"behind one that is in a segment", func(tl *tail, _, _ *chunk) { tl.setFlushed(1) }, false},
		{"into more than is allowed", func(_ *tail, to, _ *chunk) { to.data = page.Bytes()[:50]; to.at = 0 }, true},
		{"into one byte more than is allowed", func(_ *tail, to, c *chunk) { c.data = page.Bytes()[50:151] }, false},
		{"as late as is allowed", func(_ *tail, _, c *chunk) { c.maxTs = 1010 }, true},
		{"later", func(_ *tail, _, c *chunk) { c.maxTs = 1011 }, false},
	} {
		tl := tail{}
		to := &chunk{buf: page, data: page.Bytes()[0:50:50], base: 0, next: 5, maxTs: 10, firstTs: 10, records: 5, cap: 50, ready: true}
		last := &chunk{buf: page, at: 50, data: page.Bytes()[50:100:100], base: 5, next: 7, maxTs: 20, firstTs: 20, records: 2,
			cap: 50, ready: true}
		to.setLSN(3)
		last.setLSN(9)
		for _, k := range []*chunk{to, last} {
			k.buf.Retain()
			tl.add(k)
		}
		c.with(&tl, to, last)
		before := tl.bytes
		if got := tl.join(last, 150, 1000); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		chunks := 2
		if c.want {
			chunks = 1
			if to.first != 3 || to.last != 9 || to.next != 7 || to.records != 7 || to.cap != 100 || len(to.data) != 100 ||
				to.maxTs != max(last.maxTs, 10) {
				t.Errorf("%s: it became %+v", c.name, to)
			}
		}
		if len(tl.chunks) != chunks || tl.bytes != before {
			t.Errorf("%s: %d chunks, %d bytes, before %d", c.name, len(tl.chunks), tl.bytes, before)
		}
		for _, k := range tl.chunks {
			k.buf.Release()
		}
	}
	if n := pool.Outstanding(); n != 1 {
		t.Errorf("%d buffers are out", n)
	}
}

// The pages of a log grow with it, and chunks that do not fit get their own memory.
func TestPages(t *testing.T) {
	var pool bufpool.Pool
	var tl tail
	var got []string
	var bufs []*bufpool.Buffer
	next := int64(0)
	for _, size := range []int{300, 300, 300, 300, 300, 5000, 300, 300} {
		b, at := tl.reserve(&pool, size)
		bufs = append(bufs, b)
		got = append(got, fmt.Sprint(b.Len(), " ", at))
		tl.add(&chunk{buf: b, at: at, data: b.Bytes()[at : at+size], base: next, next: next + 1, first: journal.LSN(next)})
		next++
	}
	want := "[300 0 300 0 1024 0 1024 300 1024 600 5000 0 8192 0 8192 300]"
	if s := fmt.Sprint(got); s != want {
		t.Errorf("%s, want %s", s, want)
	}
	tl.dropPage()
	for _, b := range bufs {
		b.Release()
	}
	if n := pool.Outstanding(); n != 0 {
		t.Errorf("%d buffers are out", n)
	}
}

// The sum on which evictions are based is that of the chunks, whatever happens to them, and evicted
// chunks are not kept alive.
func TestTheTailCountsItsCache(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var tl tail
		end := int64(0)
		add := func(rt *rapid.T) {
			c := &chunk{base: end, next: end + rapid.Int64Range(1, 5).Draw(rt, "records"),
				cap: rapid.Int64Range(1, 100).Draw(rt, "bytes"), ready: true}
			end = c.next
			tl.add(c)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"add": add,
			"flush": func(rt *rapid.T) {
				tl.setFlushed(len(tl.flushable(rapid.Int64Range(0, 3).Draw(rt, "all or none"))))
			},
			"evict": func(rt *rapid.T) {
				below := rapid.Int64Range(0, end+1).Draw(rt, "offset")
				tl.evict(func(c *chunk) bool { return c.base < below })
			},
			"cut": func(rt *rapid.T) {
				end = rapid.Int64Range(0, end).Draw(rt, "end")
				tl.cutEnd(end)
				if n := len(tl.chunks); n > 0 {
					end = tl.chunks[n-1].next
				}
			},
			"": func(rt *rapid.T) {
				sum := int64(0)
				for _, c := range tl.chunks[:tl.flushed] {
					sum += c.cap
				}
				if tl.cached != sum {
					rt.Fatalf("%d bytes cached, the chunks have %d", tl.cached, sum)
				}
			},
		})
	})
}

func (l *Log) memoryHeld() []*chunk {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.tail.chunks
}
