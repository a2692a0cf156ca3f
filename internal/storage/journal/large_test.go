package journal

import (
	"testing"

	"github.com/chronik-io/chronik/internal/groupcommit"
)

// A write contains one large entry and all small ones; without small ones, it is full of large
// entries again after some time.
func TestAWriteHasOneLargeEntryAmongSmallOnes(t *testing.T) {
	j := open(t, memory(t), func(o *Options) { o.FileSize, o.MaxBytes = 32<<20, 256<<20 })
	bulk, other, more := newStream(1), newStream(2), newStream(3)
	o := newRecorder()
	ok(t, j.Submit(nil, entry(other, 0, 1, eager, o)))
	o.wait(1) // there is a file
	var unrun groupcommit.Batch
	j.mu.Lock()
	for j.busy {
		j.idle.Wait()
	}
	j.busy = true // the test takes the entries, not the writer
	j.mu.Unlock()
	submit := func(s *Stream, n, size int) {
		t.Helper()
		for range n {
			ok(t, j.Submit(&unrun, entry(s, 0, size, eager, o)))
		}
	}
	taken := func() (large, small int) {
		t.Helper()
		entries, _, _ := j.take(limits{records: 1 << 20, bytes: 1 << 40})
		for _, e := range entries {
			if e.size() >= largeEntry {
				large++
			} else {
				small++
			}
		}
		return large, small
	}
	want := func(wantLarge, wantSmall int) {
		t.Helper()
		if large, small := taken(); large != wantLarge || small != wantSmall {
			t.Fatalf("a write of %d large and %d small entries, want %d and %d", large, small, wantLarge, wantSmall)
		}
	}
	submit(bulk, 3, 1<<20)
	submit(more, 1, 1<<20)
	submit(other, 5, 300)
	want(1, 5)
	want(1, 0) // small ones may come back
	want(1, 0)
	want(1, 0)
	submit(bulk, 30, 1<<20)
	submit(bulk, 1, 300) // of the same stream: it can't overtake the large ones
	for range soon/(1<<20) - 4 {
		want(1, 0)
	}
	want(3, 0)
	submit(other, 1, 300)
	want(1, 1)
	want(1, 0)
	for {
		if large, small := taken(); large+small == 0 {
			break
		}
	}
	j.mu.Lock()
	j.freeLocked()
	j.mu.Unlock()
	ok(t, j.Close())
}
