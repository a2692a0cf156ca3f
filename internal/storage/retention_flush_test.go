package storage

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Retention counts bytes once, even while they are flushed from memory to a segment.
func TestRetentionCountsBytesOnce(t *testing.T) {
	l := makeLogs(t, mustOpen(t, vfs.Memory(), "sync"), 1, "sync")[0]
	put(t, l, 10, 1000)
	want := l.parts()[0].Bytes
	l.flushMu.Lock()
	run := l.tail.flushable(1 << 20)
	if len(run) == 0 {
		t.Fatal("nothing is to be flushed")
	}
	active, err := l.activeFor(run[0], l.cfg.Load(), l.cfg.Load().limits())
	must(t, err)
	bufs := make([][]byte, len(run))
	for i, c := range run {
		bufs[i] = c.data
	}
	must(t, active.Append(bufs, 1<<20))
	got := make(chan int64)
	go func() { got <- l.parts()[0].Bytes }()
	var early int64
	select {
	case early = <-got:
		t.Errorf("%d bytes while they are on their way, want %d", early, want)
	case <-time.After(50 * time.Millisecond): // it waits for the flush
	}
	l.chunksFlushed(run)
	l.flushMu.Unlock()
	if early == 0 {
		if n := <-got; n != want {
			t.Errorf("%d bytes, want %d", n, want)
		}
	}
}
