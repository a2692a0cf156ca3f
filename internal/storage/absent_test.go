package storage

import (
	"fmt"
	"path"
	"sync"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
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

// checked makes n checks, one after the other, and returns what the last one has found.
func checked(d *Dir, n int) (found sighting) {
	for range n {
		found, _ = d.checkOnce(found, func() bool { return true })
	}
	return found
}

// absentFiles fails the test unless so many files are reported.
func absentFiles(t *testing.T, when string, l *Log, want int) {
	t.Helper()
	got := 0
	if a := l.Absent(); a != nil {
		got = a.Files
	}
	if got != want {
		t.Errorf("%s: %d files are absent, want %d (%+v)", when, got, want, l.Absent())
	}
}

func TestRemovedFilesAreReportedByTheSecondCheck(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := someSealed(t, d, 2)
	checked(d, 2)
	absentFiles(t, "nothing was removed", l, 0)

	must(t, disk.RemoveAll(l.path))
	checked(d, 1)
	absentFiles(t, "one check", l, 0)
	checked(d, 2)
	absentFiles(t, "two checks", l, 3)
	holds(t, l, 15) // what is open is read
}

func TestACutFileIsReportedUntilItIsBack(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := someSealed(t, d, 2)
	name, away := l.segments[0].Path(), path.Join(d.path, "away")
	must(t, disk.Rename(name, away))
	f, err := disk.Create(name)
	must(t, err)
	_, err = f.WriteAt([]byte("short"), 0)
	must(t, err)
	must(t, f.Close())
	checked(d, 2)
	absentFiles(t, "another, shorter file", l, 1)
	if a := l.Absent(); a != nil && a.First != name {
		t.Errorf("the file is %s, want %s", a.First, name)
	}
	must(t, disk.Rename(away, name))
	checked(d, 1)
	absentFiles(t, "the file is back", l, 0)
}

// Another directory in the place of this one is another fault, which has a finding of its own.
func TestNothingIsReportedOfAnotherDirectory(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := someSealed(t, d, 1)
	must(t, disk.Remove(path.Join(d.path, IdentityFile)))
	must(t, disk.RemoveAll(l.path))
	checked(d, 3)
	absentFiles(t, "without the identity", l, 0)
}

// The repair of a failed segment removes its file, and says so itself. It removes no other file,
// and not the directory, whose loss may be why the segment has failed.
func TestALogThatIsRepaired(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := someSealed(t, d, 1)
	l.mu.Lock()
	l.life.state = loglife.Failing // without an event, for which the repair would begin
	l.mu.Unlock()
	must(t, disk.Remove(l.segments[len(l.segments)-1].Path()))
	checked(d, 3)
	absentFiles(t, "the last segment", l, 0)
	must(t, disk.Remove(l.segments[0].Path()))
	checked(d, 3)
	absentFiles(t, "another one", l, 1)
	must(t, disk.RemoveAll(l.path))
	checked(d, 3)
	absentFiles(t, "the directory", l, len(l.segments))
	if l.Flaw() == nil {
		t.Error("a log whose files are gone has no flaw")
	}
}

// unseen checks again and again while change runs, at least a thousand times, and fails the test if
// a check reports anything.
func unseen(t *testing.T, d *Dir, change func(i int)) {
	t.Helper()
	var mu sync.Mutex
	seen, made := "", 0
	ended := make(chan struct{})
	var checking sync.WaitGroup
	checking.Go(func() {
		var last sighting
		for {
			select {
			case <-ended:
				return
			default:
			}
			last, _ = d.checkOnce(last, func() bool { return true })
			mu.Lock()
			made++
			for _, l := range d.Logs() {
				if x := l.Absent(); x != nil && seen == "" {
					seen = fmt.Sprintf("check %d: %s: %+v", made, l, x)
				}
			}
			mu.Unlock()
		}
	})
	for i, enough := 0, false; !enough; i++ {
		change(i)
		mu.Lock()
		enough = i >= 100 && made >= 1000 || seen != ""
		mu.Unlock()
	}
	close(ended)
	checking.Wait()
	if seen != "" {
		t.Error(seen)
	}
}

// What the log itself removes or cuts was not removed by others, however often one checks.
func TestOwnChangesAreNotReported(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	unseen(t, d, func(i int) {
		put(t, l, 2, 900)
		must(t, l.roll())
		switch i % 4 {
		case 1:
			must(t, l.Truncate(max(l.Ends().LogEnd-1, l.Ends().LogStart)))
		case 3:
			must(t, l.SetLogStart(l.Ends().LogEnd-2))
		}
	})
}

func TestCompactionsAreNotReported(t *testing.T) {
	d, l := compactLog(t, crashfs.New(1), "sync")
	unseen(t, d, func(int) {
		set(t, l, 50, "a")
		compactAll(t, d)
	})
}

func TestDeletionsAreNotReported(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	unseen(t, d, func(int) {
		l := makeLogs(t, d, 1, "sync")[0]
		put(t, l, 2, 900)
		must(t, l.flush())
		must(t, d.Delete(l))
	})
}
