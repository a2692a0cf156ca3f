package storage

import (
	"errors"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// TestANewSegmentDoesNotOverlap: only the first half of a carried frame is in a segment, synced,
// when the segment fails. The recovery point is before the frame. The new segment begins there, so
// the old one must end there.
func TestANewSegmentDoesNotOverlap(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 3, 100)
	must(t, l.flushAndSync())
	for i := range int64(2) { // timestamps so far apart that two chunks remain
		w := record.NewBuilder(record.BatchOptions{})
		w.Append(10_000*i, nil, []byte("value"), nil)
		b, err := w.Build()
		must(t, err)
		if a := send(l, b); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	eventually(t, "the records count", func() bool { return l.AckEnd() == 5 })
	for i, c := range l.tail.chunks[l.tail.flushed:] {
		if c.setLSN(d.journal.Notified()); i > 1 {
			t.Fatal("more than two chunks")
		}
	}
	l.flushMu.Lock()
	err := errors.Join(l.writeRun(l.tail.flushable(1)), l.syncLocked())
	rp, synced := l.rp, l.segments[0].Synced()
	l.flushMu.Unlock()
	if err != nil || rp.Offset != 3 || synced == rp.Segments[0].Size {
		t.Fatalf("recovery point %+v, %d bytes are synced: %v", rp, synced, err)
	}
	must(t, l.cutToSynced(l.segments[:1:1], rp.Offset))
	if got := l.segments[0].Size(); got != rp.Segments[0].Size {
		t.Errorf("the old segment has %d bytes, %d are below the recovery point", got, rp.Segments[0].Size)
	}
}
