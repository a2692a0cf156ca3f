package journal

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// inPieces opens a journal with pieces of 16 KiB, entries of 32 KiB or more in pieces, and small
// ones below 8 KiB. It returns a stream that has just had a small entry.
func inPieces(t *testing.T, fsys *errfs.FS, o *recorder) (*opened, *Stream) {
	t.Helper()
	j := open(t, fsys, func(o *Options) { o.FileSize, o.MaxBytes = 4<<20, 64<<20 })
	if want := (sizes{piece: 16 << 10, large: 32 << 10, most: 1 << 20, small: 8 << 10, tiny: 8 << 10}); j.sizes != want {
		t.Fatalf("sizes %+v", j.sizes)
	}
	small := newStream(1)
	ok(t, j.Submit(nil, entry(small, 0, 100, eager, o)))
	synctest.Wait()
	return j, small
}

// Frames begin at blocks, however small a disk makes the files, and whatever size an entry has.
func TestPiecesBeginAtBlocks(t *testing.T) {
	payload := make([]byte, 2*writeMax)
	for size := int64(64 << 10); size <= 64<<20; size += block {
		z := newSizes(min(writeMax, size/8))
		if z.piece%block != 0 {
			t.Fatalf("files of %d bytes: pieces of %d", size, z.piece)
		}
		for n := z.large; n <= z.most; n += max(z.most/20, 1) {
			if gap := z.gap(&Entry{Payload: payload[:n]}); gap%block != 0 {
				t.Fatalf("files of %d bytes, an entry of %d: a frame begins %d bytes after a block", size, n, gap%block)
			}
		}
	}
}

// During each piece of a large entry a small one arrives. It is synced before the next piece is
// written, and all entries are found again.
func TestSmallEntriesDoNotWaitForALargeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, o := crashing(t, 1), newRecorder()
		fsys := errfs.New(disk)
		j, small := inPieces(t, fsys, o)
		at, waiting := int64(1), LSN(1)
		fsys.Add(errfs.Rule{Ops: errfs.Write, Path: "*.journal", Before: func(c errfs.Call) {
			if c.Len != j.sizes.piece {
				return
			}
			if last := j.Durable(); last < waiting {
				t.Errorf("LSN %d is durable before the next piece, want %d", last, waiting)
			}
			ok(t, j.Submit(nil, entry(small, at, 300, eager, o)))
			at++
			waiting = LSN(at)
		}})
		large := entry(newStream(2), 0, 20*16<<10, eager, o)
		ok(t, j.Submit(nil, large))
		synctest.Wait()
		ok(t, j.Close())
		if at < 15 {
			t.Errorf("%d small entries were written meanwhile", at)
		}
		allDurable(t, disk, j, o)
	})
}

// allDurable checks that every entry was reported as durable, in order, and is found after a power
// loss.
func allDurable(t *testing.T, disk *crashfs.FS, j *opened, o *recorder) {
	t.Helper()
	o.verify(t)
	all, _, err := frames(disk.PowerLossImage(crashfs.DropUnsynced, 1), j.at)
	ok(t, err)
	for _, e := range o.entries {
		ok(t, o.err(e))
		ok(t, holds(all, e))
	}
}

// Small entries of streams that have larger ones too do not make those be written in pieces: a bulk
// load is faster whole. They count when the larger ones have ended. Those of the broker's own logs
// never do: they may be the commits of the large ones.
func TestABulkLoadDoesNotSlowItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRecorder()
		j, _ := inPieces(t, errfs.New(memory(t)), o)
		time.Sleep(2 * bulkFor)
		a, b := newStream(2), newStream(3)
		for i, e := range []*Entry{entry(a, 0, 40<<10, eager, o), entry(b, 0, 40<<10, eager, o), entry(a, 1, 100, eager, o)} {
			ok(t, j.Submit(nil, e))
			synctest.Wait()
			if j.SmallTraffic(time.Now()) {
				t.Errorf("entry %d counts as small", i)
			}
		}
		time.Sleep(2 * bulkFor)
		ok(t, j.Submit(nil, entry(a, 2, 100, eager, o)))
		synctest.Wait()
		if !j.SmallTraffic(time.Now()) {
			t.Error("a small entry after the bulk load does not count")
		}
		time.Sleep(2 * bulkFor)
		own := entry(newStream(4), 0, 100, eager, o)
		own.Internal = true
		ok(t, j.Submit(nil, own))
		synctest.Wait()
		if j.SmallTraffic(time.Now()) {
			t.Error("a small entry of a log of the broker's own counts")
		}
		ok(t, j.Close())
		o.verify(t)
	})
}

// Without small entries of other streams, a large one is written whole, and so is one whose profile
// acknowledges written records.
func TestOnlyLargeEntriesAmongSmallOnesAreWrittenInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, fsys := newRecorder(), errfs.New(memory(t))
		j, small := inPieces(t, fsys, o)
		pieces := fsys.Add(errfs.Rule{Ops: errfs.Write, When: func(c errfs.Call) bool { return c.Len == j.sizes.piece }})
		want := func(n int64, e *Entry) {
			t.Helper()
			before := pieces.Hits()
			ok(t, j.Submit(nil, e))
			synctest.Wait()
			if got := int64(pieces.Hits() - before); got != n {
				t.Errorf("%d pieces of 16 KiB, want %d", got, n)
			}
		}
		bulk := newStream(2)
		want(3, entry(bulk, 0, 4*16<<10, eager, o)) // one of the others lacks its first block, one is the end
		want(0, entry(bulk, 1, 4*16<<10, loose, o))
		want(0, entry(bulk, 2, 31<<10, eager, o))
		time.Sleep(2 * smallFor)
		want(0, entry(bulk, 3, 4*16<<10, eager, o))
		want(0, entry(small, 1, 100, eager, o))
		want(3, entry(bulk, 4, 4*16<<10, eager, o))
		ok(t, j.Close())
		o.verify(t)
	})
}

// More small entries arrive during a large one than there is room for: they wait for its end, and
// nothing is overwritten. Entries of the large one's own stream wait in any case.
func TestRoomBeforeALargeEntryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, o := crashing(t, 1), newRecorder()
		fsys := errfs.New(disk)
		j, small := inPieces(t, fsys, o)
		at, bulk := int64(1), newStream(2)
		fsys.Add(errfs.Rule{Ops: errfs.Write, Before: func(c errfs.Call) {
			if c.Len == j.sizes.piece {
				for range 10 {
					ok(t, j.Submit(nil, entry(small, at, 7000, eager, o)))
					at++
				}
			}
		}})
		ok(t, j.Submit(nil, entry(bulk, 0, 20*16<<10, eager, o)))
		for i := range int64(5) {
			ok(t, j.Submit(nil, entry(bulk, 1+i, 100, eager, o)))
		}
		synctest.Wait()
		ok(t, j.Close())
		allDurable(t, disk, j, o)
	})
}

// Drop takes a large entry away while a piece of it is being written: its owner is notified at
// once, the entry is never found, and the entries of others count.
func TestDropDuringAPiece(t *testing.T) {
	if found := dropDuringAPiece(t, Broken{}); found {
		t.Error("the dropped entry is in the journal")
	}
}

func dropDuringAPiece(t *testing.T, broken Broken) (found bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		disk, o := crashing(t, 1), newRecorder()
		fsys := errfs.New(disk)
		j, small := inPieces(t, fsys, o)
		j.opt.Broken = broken
		bulk := newStream(2)
		dropped, hits := entry(bulk, 0, 20*16<<10, eager, o), 0
		fsys.Add(errfs.Rule{Ops: errfs.Write, Before: func(c errfs.Call) {
			if c.Len != j.sizes.piece {
				return
			}
			if hits++; hits == 3 {
				j.Drop(bulk)
				if broken == (Broken{}) && !errors.Is(o.err(dropped), ErrDropped) {
					t.Errorf("after Drop: %v", o.err(dropped))
				}
				clear(dropped.Payload) // it belongs to its owner again
			}
		}})
		ok(t, j.Submit(nil, dropped))
		synctest.Wait()
		last := j.Assigned()
		for i := range int64(100) { // over the pieces that were written
			ok(t, j.Submit(nil, entry(small, 1+i, 5000, eager, o)))
			synctest.Wait()
		}
		ok(t, j.Close())
		all, _, err := frames(disk.PowerLossImage(crashfs.DropUnsynced, 1), j.at)
		ok(t, err)
		for _, f := range all {
			found = found || f.Stream == bulk.id
		}
		if !found && o.count() != 102 || last > 2 && !found {
			t.Errorf("%d entries are reported, LSN %d was assigned", o.count(), last)
		}
	})
	return found
}

// A piece cannot be written: the journal stops, and the owner of every entry gets the error, that
// of the large one included.
func TestAPieceCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, fsys := newRecorder(), errfs.New(memory(t))
		j, small := inPieces(t, fsys, o)
		hits := 0
		fsys.Add(errfs.Rule{Ops: errfs.Write, Err: syscall.EIO, Count: 1, When: func(c errfs.Call) bool {
			hits += int(c.Len / j.sizes.piece)
			return hits == 3
		}})
		large, next := entry(newStream(2), 0, 20*16<<10, eager, o), entry(small, 1, 10, low, o)
		ok(t, j.Submit(nil, large))
		synctest.Wait()
		if err := <-j.failed; !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "piece") {
			t.Errorf("the journal failed with %v", err)
		}
		if !errors.Is(o.err(large), syscall.EIO) || j.part != nil {
			t.Errorf("owner: %v", o.err(large))
		}
		if err := j.Submit(nil, next); !errors.Is(err, ErrStopped) {
			t.Errorf("submit: %v", err)
		}
		j.begin(t, j.Assigned()+1)
		ok(t, j.Submit(nil, next))
		ok(t, j.Close())
		ok(t, o.err(next))
	})
}

// Close writes a large entry to its end.
func TestCloseDuringAPiece(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, fsys := newRecorder(), errfs.New(memory(t))
		j, _ := inPieces(t, fsys, o)
		fsys.Add(errfs.Rule{Ops: errfs.Write, Count: 1, When: func(c errfs.Call) bool { return c.Len == j.sizes.piece },
			Before: func(errfs.Call) { go func() { ok(t, j.Close()) }() }})
		large := entry(newStream(2), 0, 20*16<<10, eager, o)
		ok(t, j.Submit(nil, large))
		synctest.Wait()
		ok(t, o.err(large))
		all, _, err := frames(fsys, j.at)
		ok(t, err)
		ok(t, holds(all, large))
	})
}

// While there are tiny entries, a write has few that are larger. Small ones that are queued behind
// the rest do not wait for later writes, and the rest keep their order.
func TestSmallEntriesPassThoseLeftToTheNextWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, fsys := newRecorder(), errfs.New(memory(t))
		j, small := inPieces(t, fsys, o)
		var order []*Entry // each of another stream
		for i, size := range []int{20 << 10, 20 << 10, 40 << 10, 20 << 10, 20 << 10, 100, 20 << 10} {
			order = append(order, entry(newStream(2+i), 0, size, eager, o))
		}
		fsys.Add(errfs.Rule{Ops: errfs.Write, Count: 1, Before: func(errfs.Call) {
			for _, e := range order {
				ok(t, j.Submit(nil, e))
			}
			ok(t, j.Submit(nil, entry(order[5].Stream, 1, 20<<10, eager, o))) // this stream is served twice
		}})
		ok(t, j.Submit(nil, entry(small, 1, 100, eager, o)))
		synctest.Wait()
		ok(t, j.Close())
		o.verify(t)
		if e := order[5]; e.LSN != order[0].LSN+1 {
			t.Errorf("the small entry has LSN %d, the first one %d", e.LSN, order[0].LSN)
		}
		order = append(order[:5], order[6])
		for i, e := range order[1:] {
			if before := order[i]; e.LSN < before.LSN {
				t.Errorf("entry %d of %d bytes has LSN %d, the one before it %d", i+1, len(e.Payload), e.LSN, before.LSN)
			}
		}
	})
}

// The system's clock is set while there are tiny entries: whether they have arrived recently does
// not depend on it.
func TestTheClockIsSetWhileSmallEntriesArrive(t *testing.T) {
	o := newRecorder()
	j := open(t, memory(t), nil)
	tiny := entry(newStream(1), 0, 100, eager, o)
	ok(t, j.Submit(nil, tiny))
	o.wait(1)
	for _, by := range []time.Duration{0, -time.Hour, time.Hour} {
		if !j.SmallTraffic(wallClock(tiny.arrived, by)) {
			t.Errorf("a clock set by %v hides a tiny entry", by)
		}
		if j.SmallTraffic(wallClock(tiny.arrived.Add(2*smallFor), by)) {
			t.Errorf("with a clock set by %v, a tiny entry counts for longer than smallFor", by)
		}
	}
	ok(t, j.Close())
}

// wallClock returns now as it would be with the system's clock set by whole seconds: the monotonic
// reading is the same. The first word of a Time has the clock's seconds above 30 bits.
func wallClock(now time.Time, by time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&now))
	*wall += uint64(by/time.Second) << 30
	return now
}
