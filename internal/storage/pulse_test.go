package storage

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// A directory whose disk hangs has waiting records and makes no progress. A directory that failed
// or is idle has none waiting.
func TestADirectoryStallsWhileItsDiskHangs(t *testing.T) {
	disk := errfs.New(crashfs.New(1))
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 1, 100)
	waits := func() bool { _, waits := d.journal.Pulse(); return waits }
	eventually(t, "nothing waits", func() bool { return !waits() })
	if n := d.Stalled(); n != 0 {
		t.Errorf("an idle directory stalls for %v", n)
	}
	held := make(chan struct{})
	free, let := gated(t)
	disk.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Before: func(errfs.Call) { close(held); <-free }}))
	if a := send(l, testBatch(t, 100, nil)); a.Err != nil {
		t.Fatal(a.Err)
	}
	<-held
	begin := time.Now()
	first := d.Stalled() // the write has completed, and the fdatasync waits
	eventually(t, "the directory stalls", func() bool { return d.Stalled() >= 10*time.Millisecond })
	if most := time.Since(begin); first != 0 || d.Stalled() > most+time.Second || d.Err() != nil {
		t.Errorf("while the disk hangs: first %v, then %v within %v; %v", first, d.Stalled(), most, d.Err())
	}
	let()
	eventually(t, "the directory moves", func() bool { return !waits() })
	if n := d.Stalled(); n != 0 {
		t.Errorf("after the fdatasync it stalls for %v", n)
	}
}

// A directory in which records always wait, and a write ends between any two looks, does not stall.
func TestADirectoryThatWorksDoesNotStall(t *testing.T) {
	var s standstill
	begin := time.Now()
	for i, x := range []struct {
		progress uint64
		waiting  bool
		want     time.Duration
	}{
		{5, true, 0}, {6, true, 0}, {7, true, 0}, {7, true, time.Second}, {7, true, 2 * time.Second}, {8, true, 0},
		{8, true, time.Second}, {8, false, 0}, {8, true, 0}, {8, true, time.Second},
	} {
		if got := s.check(x.progress, x.waiting, begin.Add(time.Duration(i)*time.Second)); got != x.want {
			t.Errorf("look %d: %v, want %v", i, got, x.want)
		}
	}
}

// A recovery reports its progress, so that an observer sees that it continues.
func TestARecoveryReportsItsProgress(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	put(t, makeLogs(t, d, 1, "sync")[0], 20, 100)
	var said []string
	mustOpen(t, disk.KillImage(1), "sync", func(o *Options) {
		o.Progress = func(dir, doing string, done, all int) {
			if dir != "/d" || done < 1 || all < done {
				t.Errorf("%s: %s: %d of %d", dir, doing, done, all)
			}
			said = append(said, doing)
		}
	})
	if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "journal") }) {
		t.Errorf("said %q", said)
	}
}
