package storage

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// Finishing a swap frees disk space. Once its checkpoint is durable, no other checkpoint must be
// needed for that: on a full disk, none can be written.
func TestASwapIsFinishedOnAFullDisk(t *testing.T) {
	fs := errfs.New(crashfs.New(1))
	d, l := compactLog(t, fs, "sync", func(o *Options) { o.Cleaning.Backoff = 1 << 60 })
	removal := fs.Add(errfs.Rule{Ops: errfs.Remove, Path: "/d/t-0/*.log", Err: syscall.EIO})
	set(t, l, 100, "a")
	eventually(t, "a swap fails", func() bool {
		if removal.Hits() == 0 { // the cleaner of the directory may have been first, and have left nothing to do
			for i := range 10 {
				_ = send(l, keyed(t, fmt.Sprint("key ", i), "b", nil))
			}
			_ = l.flushAndSync()
			_ = l.roll()
			d.compactNext()
		}
		return removal.Hits() > 0 && l.Err() != nil
	})
	before := len(files(t, l, segment.LogSuffix))
	full := fs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/checkpoint*/*", Err: syscall.ENOSPC})
	removal.Off()
	eventually(t, "the old segments are removed", func() bool { return len(files(t, l, segment.LogSuffix)) < before })
	full.Off()
	eventually(t, "the log takes records", func() bool { return l.Err() == nil })
}
