package storage

import (
	"errors"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// The fdatasync for which Close waits fails. Close reports that, and the next start finds what the
// disk has.
func TestAStopThatMeetsAFailedDatasync(t *testing.T) {
	for _, drop := range []errfs.Drop{errfs.KeepDirty, errfs.DropCached, errfs.DropEvicted} {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		d := mustOpen(t, errs, "os")
		logs := makeLogs(t, d, 2, "os")
		put(t, logs[0], 3, 900)
		hold, let := gated(t)
		held := errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Before: func(errfs.Call) { <-hold },
			Err: syscall.EIO, Drop: drop}))
		for range 3 {
			if a := send(logs[0], testBatch(t, 900, nil)); a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		eventually(t, "the records count", func() bool { return logs[0].AckEnd() == 6 })
		full := errors.New("the journal is full")
		d.applyEvent(loglife.Exhausted, full) // so that Close does not wait for records in flight
		closed := make(chan error, 1)
		go func() { closed <- d.Close() }()
		eventually(t, "the datasync began", func() bool { return held.Hits() > 0 })
		eventually(t, "all that can be is brought into segments", func() bool {
			logs[0].mu.RLock()
			defer logs[0].mu.RUnlock()
			return logs[0].rp.Offset == 3
		})
		let()
		if err := <-closed; err == nil {
			t.Errorf("%v: the stop met no error", drop)
		}
		for _, image := range []*crashfs.FS{disk.KillImage(1), disk.PowerLossImage(crashfs.DropUnsynced, 1)} {
			d, err := openDir(image, "os")
			if err != nil {
				t.Errorf("%v: the next start: %v", drop, err)
				continue
			}
			if l := byPartition(t, d, 0); d.Clean() || l.Ends().LogEnd < 3 {
				t.Errorf("%v: the stop was clean, or synced records are gone: %+v", drop, l.Ends())
			}
			_ = d.Close()
		}
	}
}
