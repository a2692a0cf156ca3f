package journal

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// tooMuch entries of 9,000 bytes are more than fit in a journal of 256 KiB.
const tooMuch = 60

// submitTooMuch submits them.
func submitTooMuch(t *testing.T, j *opened, s *Stream, o *recorder) {
	t.Helper()
	for i := range tooMuch {
		ok(t, j.Submit(nil, entry(s, int64(i), 9000, eager, o)))
	}
}

// At the size limit entries wait, the journal requests a sweep, carried entries can still be
// written, and Release lets the other entries through.
func TestLimitAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, memory(t), func(o *Options) { o.MaxBytes = 256 << 10 })
		s, o := newStream(1), newRecorder()
		submitTooMuch(t, j, s, o)
		synctest.Wait()
		passed := o.count()
		if passed == tooMuch || j.Used() > 256<<10 || len(j.swept) == 0 {
			t.Fatalf("%d of %d passed, %d bytes in use, %d sweeps", passed, tooMuch, j.Used(), len(j.swept))
		}
		c, co := newStream(2), newRecorder()
		e := entry(c, 0, 9000, nil, co)
		e.Carried = true
		ok(t, j.Submit(nil, e))
		synctest.Wait()
		if co.count() != 1 || co.err(e) != nil {
			t.Fatal("a carried entry waits for the space that it makes available")
		}
		target := j.SweepTarget()
		if target == 0 {
			t.Fatal("nothing to sweep")
		}
		for o.count() < tooMuch {
			before := o.count()
			j.Release(j.Oldest(j.Notified() + 1))
			synctest.Wait()
			if o.count() == before {
				t.Fatalf("stuck at %d of %d, %d bytes in use", before, tooMuch, j.Used())
			}
		}
		o.verify(t)
		ok(t, j.Close())
	})
}

// An entry that waits for space is dropped. Those behind it that have space do not wait for a
// Release, which may never come.
func TestDropEndsAWaitForSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, memory(t), func(o *Options) { o.MaxBytes = 256 << 10 })
		s, o := newStream(1), newRecorder()
		submitTooMuch(t, j, s, o)
		small := entry(newStream(2), 0, 100, eager, o)
		synctest.Wait()
		passed := o.count()
		ok(t, j.Submit(nil, small))
		synctest.Wait()
		if passed == tooMuch || o.count() != passed {
			t.Fatalf("%d of %d passed, and then %d", passed, tooMuch, o.count()-passed)
		}
		j.Drop(s)
		synctest.Wait()
		if o.count() != tooMuch+1 || o.err(small) != nil {
			t.Errorf("%d of %d entries are reported", o.count(), tooMuch+1)
		}
		ok(t, j.Close())
	})
}

// Closing a file may wait for the disk, which may also be busy with zeros for the file. Every
// append asks Stalled, which must not wait meanwhile.
func TestAFileIsClosedWithoutALock(t *testing.T) {
	for name, op := range map[string]errfs.Op{"next file": 0, "after an error": errfs.Datasync} {
		synctest.Test(t, func(t *testing.T) {
			fsys := errfs.New(memory(t))
			j := open(t, fsys, nil)
			s, o := newStream(1), newRecorder()
			ok(t, j.Submit(nil, entry(s, 0, 100, eager, o)))
			synctest.Wait()
			hold, closing := make(chan struct{}), make(chan struct{})
			fsys.Add(errfs.Rule{Ops: errfs.Close, Count: 1, Before: func(errfs.Call) { close(closing); <-hold }})
			if op != 0 {
				fsys.Add(errfs.Rule{Ops: op, Count: 1, Err: syscall.EIO})
			}
			for i := range 20 {
				_ = j.Submit(nil, entry(s, int64(i+1), 9000, eager, o)) // refused after the error
			}
			<-closing
			if j.space.mu.TryLock() {
				j.space.mu.Unlock()
			} else {
				t.Errorf("%s: Stalled waits until the file is closed", name)
			}
			close(hold)
			synctest.Wait()
			ok(t, j.Close())
		})
	}
}

// An entry larger than a file gets a file of its own, and the chain of files stays readable
// although a sequence was skipped.
func TestOversizeEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := memory(t)
		j := open(t, fsys, nil)
		s, o := newStream(1), newRecorder()
		sizes := []int{100, 20_000, 300_000, 100, 60_000, 100, 200_000, 30_000}
		for i, size := range sizes {
			ok(t, j.Submit(nil, entry(s, int64(i), size, eager, o)))
			synctest.Wait()
			if o.count() != i+1 {
				t.Fatalf("entry %d of %d bytes waits", i, size)
			}
		}
		ok(t, j.Close())
		all, _, err := frames(fsys, j.at)
		if err != nil || len(all) != len(sizes) {
			t.Fatalf("%d frames of %d, %v", len(all), len(sizes), err)
		}
		for _, e := range o.entries {
			ok(t, holds(all, e))
		}
		o.verify(t)
		// A file that was named and never used may still fill the gap.
		gaps := 0
		for seq := j.at.File; seq < j.space.maxSeq; seq++ {
			if f, err := fsys.Create(testDir + "/" + fileName(seq)); err == nil {
				ok(t, f.Truncate(64<<10))
				ok(t, f.Close())
				gaps++
			}
		}
		if again, _, err := frames(fsys, j.at); err != nil || len(again) != len(all) || gaps == 0 {
			t.Errorf("with %d unused files between: %d frames, %v", gaps, len(again), err)
		}
	})
}

// entriesOfTheLimit writes small entries, and large ones of about the journal's size limit and
// above it. Each sweep releases what it can. It returns which entry waits, "" if none does.
func entriesOfTheLimit(t *testing.T, b Broken) (waits string) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, memory(t), func(o *Options) { o.MaxBytes, o.Broken = 256<<10, b })
		s, o := newStream(1), newRecorder()
		for i, size := range []int{100, 150 << 10, 100, 200 << 10, 9000, 240 << 10, 300 << 10, 300 << 10, 100, 9000} {
			ok(t, j.Submit(nil, entry(s, int64(i), size, eager, o)))
			for range 4 {
				if synctest.Wait(); o.count() <= i && j.SweepTarget() > 0 {
					j.Release(j.Oldest(j.Notified() + 1))
				}
			}
			if synctest.Wait(); o.count() <= i {
				waits = fmt.Sprintf("entry %d of %d bytes waits: %d bytes in use, full: %v", i, size, j.Used(), j.Full())
				break
			}
		}
		ok(t, j.Close())
	})
	return waits
}

// An entry of about the journal's limit, or above it, does not stop the entries after it.
func TestAnEntryMayBeAsLargeAsTheLimit(t *testing.T) {
	if waits := entriesOfTheLimit(t, Broken{}); waits != "" {
		t.Error(waits)
	}
}

// Files are recycled: with steady releases their number stays small.
func TestFilesAreRecycled(t *testing.T) {
	fsys := memory(t)
	j := open(t, fsys, nil)
	s, o := newStream(1), newRecorder()
	for i := range 300 {
		ok(t, j.Submit(nil, entry(s, int64(i), 9000, eager, o)))
		o.wait(i + 1)
		j.Release(j.Oldest(j.Notified() + 1))
	}
	infos, err := fsys.List(testDir)
	ok(t, err)
	if len(infos) > 8 {
		t.Errorf("%d files for a journal that needs two", len(infos))
	}
	ok(t, j.Close())
}

// Read returns the frames of a running journal.
func TestReadWhileWriting(t *testing.T) {
	j := open(t, memory(t), nil)
	s, o := newStream(1), newRecorder()
	for i := range 50 {
		ok(t, j.Submit(nil, entry(s, int64(i), 5000, eager, o)))
		o.wait(i + 1)
		if i%10 == 9 {
			n := 0
			through := j.Notified()
			ok(t, j.Read(j.Oldest(1), through, func(f Frame) error { n++; return nil }))
			if n != int(through) {
				t.Errorf("%d frames through %d", n, through)
			}
		}
	}
	if err := j.Read(j.Oldest(1), j.Notified()+1, func(Frame) error { return nil }); err == nil {
		t.Error("a missing frame was read")
	}
	ok(t, j.Close())
}

// Rotate leaves a file without frames; IsUntouched detects a frame in it.
func TestRotateAndUntouched(t *testing.T) {
	j := open(t, memory(t), nil)
	s, o := newStream(1), newRecorder()
	ok(t, j.Submit(nil, entry(s, 0, 100, eager, o)))
	o.wait(1)
	at, err := j.Rotate()
	ok(t, err)
	if clean, err := IsUntouched(j.opt.FS, j.opt.Dir, j.opt.ID, at); err != nil || !clean {
		t.Errorf("after a rotation: %v, %v", clean, err)
	}
	ok(t, j.Resume())
	ok(t, j.Submit(nil, entry(s, 1, 100, eager, o)))
	o.wait(2)
	if clean, err := IsUntouched(j.opt.FS, j.opt.Dir, j.opt.ID, at); err != nil || clean {
		t.Errorf("after an entry: %v, %v", clean, err)
	}
	ok(t, j.Close())
}

func TestOptionsThatDontFit(t *testing.T) {
	for _, o := range []Options{{FileSize: 1 << 10, MaxBytes: 1 << 20}, {FileSize: 64 << 10, MaxBytes: 128 << 10}} {
		o.FS, o.Dir = memory(t), testDir
		if j, err := Open(o); err == nil {
			t.Errorf("%+v was accepted", o)
			_ = j.Close()
		}
	}
	if _, err := Open(Options{FS: vfs.Memory(), Dir: "/missing", FileSize: 64 << 10, MaxBytes: 1 << 20}); err == nil {
		t.Error("a missing directory was opened")
	}
}

// The calls of a first start, a group, a file switch and a clean rotation, in order. Every
// guarantee of durability depends on this order.
func TestCallsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashing(t, 1)
		later := errfs.New(fsys)
		later.Add(errfs.Rule{Ops: errfs.Create, Delay: time.Second}) // while the next file is created, the current one is synced
		var b strings.Builder
		seen := 0
		step := func(name string) {
			time.Sleep(2 * time.Second)
			synctest.Wait()
			b.WriteString("# " + name + "\n")
			calls := fsys.Trace()
			for _, call := range calls[seen:] {
				b.WriteString(call + "\n")
			}
			seen = len(calls)
		}
		fsys.SetTrace(true)
		j := open(t, later, nil)
		step("first start")
		s, o := newStream(1), newRecorder()
		ok(t, j.Submit(nil, entry(s, 0, 300, eager, o), entry(s, 1, 300, eager, o)))
		step("a group of two entries")
		ok(t, j.Submit(nil, entry(s, 2, 300, eager, o)))
		step("the next group begins at a block of its own")
		ok(t, j.Submit(nil, entry(s, 3, 30_000, eager, o)))
		step("a group beyond a quarter of the file: the next one is prepared")
		ok(t, j.Submit(nil, entry(s, 4, 30_000, eager, o)))
		step("the next file begins")
		_, err := j.Rotate()
		ok(t, err)
		step("rotation")
		ok(t, j.Close())
		step("close")
		goldenFile(t, "calls.txt", b.String())
	})
}

// An entry that needs more zeros than the current file has ahead of the writer gets them, whether
// it is written in pieces or not.
func TestAnEntryAboveTheZerosAheadGetsSpace(t *testing.T) {
	for _, size := range []int{zeroAhead - zeroAhead/20, zeroAhead + 2*zeroStep, 2 * zeroAhead} {
		synctest.Test(t, func(t *testing.T) {
			o := newRecorder()
			j := open(t, memory(t), func(o *Options) { o.FileSize, o.MaxBytes = 4*zeroAhead, 64*zeroAhead })
			s := newStream(1)
			ok(t, j.Submit(nil, entry(s, 0, 100, eager, o), entry(s, 1, size, eager, o), entry(s, 2, 100, eager, o)))
			synctest.Wait()
			if o.count() != 3 {
				t.Errorf("an entry of %d bytes never gets space", size)
				j.Drop(s)
			}
			ok(t, j.Close())
			if len(j.space.live) != 1 {
				t.Errorf("%d bytes: the journal has begun another file", size)
			}
		})
	}
}

// While the current file is being closed, a larger file takes the place of the next one, of which
// only the beginning is zeroed. What is written now is not covered with zeros later.
func TestAFileIsReplacedWhileTheCurrentOneEnds(t *testing.T) {
	fsys := errfs.New(memory(t))
	j := open(t, fsys, func(o *Options) { o.FileSize, o.MaxBytes = 4<<20, 64<<20 })
	s, large, o := newStream(1), newStream(2), newRecorder()
	for i := range 8 {
		ok(t, j.Submit(nil, entry(s, int64(i), 460<<10, eager, o)))
	}
	o.wait(8)
	cur, next := j.at.File, j.at.File+1
	eventually(t, "the next file is prepared", func() bool {
		j.space.mu.Lock()
		defer j.space.mu.Unlock()
		return j.space.next != nil && j.space.next.zeroed.Load() == 4<<20
	})
	hold := make(chan struct{})
	created := fsys.Add(errfs.Rule{Ops: errfs.Create, Count: 1, Before: func(errfs.Call) { <-hold }})
	ok(t, j.Submit(nil, entry(large, 0, 10<<20, eager, o)))
	eventually(t, "a larger file is created", func() bool { return created.Hits() == 1 })
	before := j.steps.Load()
	zeroed := fsys.Add(errfs.Rule{Ops: errfs.Write, Path: testDir + "/" + fileName(next+1), Count: 1,
		When: func(c errfs.Call) bool { return c.Off >= zeroStep },
		Before: func(errfs.Call) {
			eventually(t, "the entry is written", func() bool { return j.steps.Load() > before })
		}})
	fsys.Add(errfs.Rule{Ops: errfs.Close, Path: testDir + "/" + fileName(cur), Count: 1, Before: func(errfs.Call) {
		close(hold)
		eventually(t, "the rest of the larger file is zeroed", func() bool { return zeroed.Hits() == 1 })
	}})
	last := entry(s, 8, 500<<10, nil, o) // for a control entry there is space
	ok(t, j.Submit(nil, last))
	o.wait(10)
	ok(t, o.err(last))
	ok(t, j.Close())
	all, _, err := frames(fsys, j.at)
	ok(t, err)
	for _, e := range o.entries {
		ok(t, holds(all, e))
	}
}
