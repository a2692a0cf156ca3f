package storage

import (
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// A directory whose disk hangs has waiting records and makes no progress. A directory that failed
// or is idle has none waiting.
func TestPulseStopsWhileTheDiskHangs(t *testing.T) {
	disk := errfs.New(crashfs.New(1))
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 1, 100)
	eventually(t, "nothing waits", func() bool { return !d.Pulse().Waiting })
	held, free := make(chan struct{}), make(chan struct{})
	disk.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Before: func(errfs.Call) { close(held); <-free }}))
	if a := send(l, testBatch(t, 100, nil)); a.Err != nil {
		t.Fatal(a.Err)
	}
	<-held
	before := d.Pulse().Progress // the write has completed
	if p := d.Pulse(); !p.Waiting || p.Progress != before || d.Err() != nil {
		t.Errorf("while the disk hangs: %+v after %d, %v", p, before, d.Err())
	}
	close(free)
	eventually(t, "the pulse moves", func() bool { p := d.Pulse(); return !p.Waiting && p.Progress > before })
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
