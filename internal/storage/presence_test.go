package storage

import (
	"errors"
	"io/fs"
	"path"
	"sync"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// someSealed returns a log with n sealed segments of five records each, and an active one.
func someSealed(t *testing.T, d *Dir, n int) *Log {
	t.Helper()
	l := makeLogs(t, d, 1, "sync")[0]
	for range n {
		put(t, l, 5, 900)
		must(t, l.roll())
	}
	put(t, l, 5, 900)
	must(t, l.flush())
	return l
}

// What is removed and still open is put back, and nothing is lost by a kill afterwards.
func TestRemovedFilesThatAreOpenArePutBack(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := someSealed(t, d, 2)
	must(t, disk.RemoveAll(l.path))
	d.checkFiles(nil)
	if r := l.Removed(); r.PutBack != 4 || r.Unsaved != nil || l.Flaw() != nil {
		t.Fatalf("after the look: %+v, %v", r, l.Flaw())
	}
	put(t, l, 5, 900)
	must(t, l.flush())
	holds(t, l, 20)
	if differs, m := l.compare(); differs {
		t.Errorf("the files still differ: %+v", m)
	}
	again := mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), "sync")
	holds(t, again.Logs()[0], 20)
}

// An active file that is removed, with another one in its place, is put back, too; the other one is
// kept.
func TestAReplacedFileIsPutBack(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := someSealed(t, d, 1)
	name := l.active().Path()
	must(t, disk.Rename(name, name+".away"))
	f, err := disk.Create(name)
	must(t, err)
	must(t, f.Truncate(l.active().Size()))
	must(t, f.Close())
	d.checkFiles(nil)
	if r := l.Removed(); r.PutBack != 1 || r.Unsaved != nil {
		t.Fatalf("after the look: %+v", r)
	}
	infos, err := disk.List(l.path)
	must(t, err)
	others := 0
	for _, in := range infos {
		if ok, _ := path.Match("*.other-*", in.Name); ok {
			others++
		}
	}
	if others != 1 {
		t.Errorf("%d other files are kept, want 1: %+v", others, infos)
	}
	again := mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), "sync")
	holds(t, again.Logs()[0], 10)
}

// A sealed segment that is removed and not open is damaged as a whole, until the file is back.
func TestARemovedSegmentIsDamagedUntilItIsBack(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := someSealed(t, d, 3)
	s := l.segments[1]
	s.Forget()
	must(t, disk.Rename(s.Path(), "/away"))
	d.checkFiles(nil)
	all := l.Damages()
	if len(all) != 1 || all[0].From != 5 || all[0].Next != 10 || !all[0].Removed || l.Flaw() == nil {
		t.Fatalf("damages: %+v, %v", all, l.Flaw())
	}
	d.memory.evictAll([]*Log{l})
	if bad := damagedOffsets(t, l); len(bad) != 5 {
		t.Errorf("offsets %v are damaged", bad)
	}
	must(t, disk.Rename("/away", s.Path()))
	d.checkFiles(nil)
	if err := l.Flaw(); err != nil {
		t.Errorf("the file is back: %v", err)
	}
	holds(t, l, 20)
}

// A segment that is cut is read from there on.
func TestACutSegmentIsDamaged(t *testing.T) {
	for _, which := range []string{"sealed", "active"} {
		t.Run(which, func(t *testing.T) {
			disk := crashfs.New(1)
			d := mustOpen(t, disk, "sync")
			l := someSealed(t, d, 2)
			s := l.segments[1]
			if which == "active" {
				s = l.active()
			}
			f, err := disk.Open(s.Path())
			must(t, err)
			must(t, f.Truncate(s.Size()*3/5))
			must(t, f.Close())
			cut := d.checkFiles(nil)
			all := l.Damages()
			if len(cut) != 1 || len(all) != 1 || all[0].From != s.Base()+3 || all[0].Next != s.Base()+5 || l.Flaw() == nil {
				t.Errorf("cut: %v, damages: %+v", cut, all)
			}
			if again := d.checkFiles(cut); len(again) != 1 {
				t.Errorf("the second look: %v", again)
			}
		})
	}
}

// A file that cannot be put back stays open, and the next look tries again.
func TestAFileThatCannotBePutBackStaysOpen(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync", func(o *Options) { o.OpenFiles = 1 })
	l := someSealed(t, d, 1)
	must(t, disk.RemoveAll(l.path))
	full := errs.Add(errfs.Rule{Ops: errfs.Create, Path: path.Join(l.path, "*"), Err: fs.ErrPermission})
	d.checkFiles(nil)
	if r := l.Removed(); !errors.Is(r.Unsaved, fs.ErrPermission) {
		t.Fatalf("after the look: %+v", r)
	}
	full.Off()
	d.checkFiles(nil)
	if r := l.Removed(); r.Unsaved != nil || r.PutBack == 0 {
		t.Errorf("after the second look: %+v", r)
	}
	s, err := l.Read(5, 10, 1<<20, true)
	must(t, err)
	s.Release()
}

// A log that cannot begin a segment because its directory was removed continues when that is back.
func TestALogContinuesWhenItsDirectoryIsPutBack(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := someSealed(t, d, 1)
	must(t, disk.RemoveAll(l.path))
	for range 12 {
		if a := send(l, testBatch(t, 100_000, nil)); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	synced(t, l) // a flush in the background may have failed, which discards what is not yet written
	if err := l.flush(); err == nil {
		t.Fatal("a segment was begun without the directory")
	}
	d.checkFiles(nil)
	if r := l.Removed(); r.PutBack < 3 || r.Unsaved != nil {
		t.Fatalf("after the look: %+v", r)
	}
	eventually(t, "the log accepts records again", func() bool { return l.Err() == nil })
	end := l.Ends().LogEnd
	put(t, l, 5, 900)
	again := mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), "sync")
	holds(t, again.Logs()[0], end+5)
}

// Nothing is put back into a directory that is not that of the broker: it was removed, or nothing
// is mounted there.
func TestNothingIsPutBackWithoutTheDirectory(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := someSealed(t, d, 1)
	must(t, disk.Remove(path.Join(d.path, IdentityFile)))
	must(t, disk.RemoveAll(l.path))
	d.checkFiles(nil)
	if _, err := disk.Stat(l.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the partition's directory: %v", err)
	}
}

// looking compares the files again and again until the returned function is called.
func looking(d *Dir) (end func()) {
	done := make(chan struct{})
	var looks sync.WaitGroup
	looks.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				d.checkFiles(nil)
			}
		}
	})
	return func() {
		close(done)
		looks.Wait()
	}
}

// unharmed fails the test if a look has found anything.
func unharmed(t *testing.T, l *Log) {
	t.Helper()
	if r := l.Removed(); r.PutBack > 0 || r.Unsaved != nil || l.Flaw() != nil {
		t.Errorf("%+v, %v", r, l.Flaw())
	}
}

// Rolls, truncations, and removals by the log itself are no removals by others.
func TestTheLogsOwnChangesAreNoLoss(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	end := looking(d)
	for i := range 200 {
		put(t, l, 2, 900)
		must(t, l.roll())
		switch i % 4 {
		case 1:
			must(t, l.Truncate(max(l.Ends().LogEnd-1, l.Ends().LogStart)))
		case 3:
			must(t, l.SetLogStart(l.Ends().LogEnd-2))
		}
	}
	end()
	unharmed(t, l)
}

// The swaps of a compaction are no loss either.
func TestCompactionIsNoLoss(t *testing.T) {
	d, l := compactLog(t, crashfs.New(1), "sync")
	end := looking(d)
	for range 5 {
		set(t, l, 50, "a")
		compactAll(t, d)
	}
	end()
	unharmed(t, l)
}

// A deletion while the files are compared leaves nothing behind.
func TestADeletedLogIsNotPutBack(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	end := looking(d)
	for range 20 {
		l := makeLogs(t, d, 1, "sync")[0]
		put(t, l, 2, 900)
		must(t, d.Delete(l))
		if _, err := disk.Stat(l.path); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the directory of the deleted log: %v", err)
		}
		unharmed(t, l)
	}
	end()
}
