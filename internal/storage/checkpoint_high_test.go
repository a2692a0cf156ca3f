package storage

import (
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// putInEpoch appends n records in a leader epoch and waits until they are durable.
func putInEpoch(t *testing.T, l *Log, epoch int32, n int) {
	t.Helper()
	l.SetLeaderEpoch(epoch, true)
	for range n {
		a := &Append{Batches: testBatch(t, 100, nil), LeaderEpoch: epoch, Sink: make(sink, 1)}
		l.Append(a, nil)
		if <-a.Sink.(sink); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	synced(t, l)
}

// savedHigh returns a log of ten records, with a saved high watermark of 8, that no checkpoint has.
func savedHigh(t *testing.T, b broken) (*crashfs.FS, *errfs.FS, *Log) {
	t.Helper()
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync", func(o *Options) { o.broken = b })
	logs := makeLogs(t, d, 2, "sync")
	putInEpoch(t, logs[0], 3, 10)
	logs[0].Observe(knowing{high: 8, epoch: 3})
	must(t, d.SaveHigh(logs))
	return disk, errs, logs[0]
}

// A start after a crash knows the saved high watermark, which is newer than the checkpoint.
func TestASavedHighWatermarkSurvivesAKill(t *testing.T) {
	disk, errs, l := savedHigh(t, broken{})
	d := mustOpen(t, disk.KillImage(1), "sync")
	wantHigh(t, byPartition(t, d, 0), 8, 3)
	wantHigh(t, byPartition(t, d, 1), 0, -1) // nothing is known of an empty log
	again := d.opt.FS.(*crashfs.FS).KillImage(1)
	must(t, again.Remove("/d/"+HighFile))
	wantHigh(t, byPartition(t, mustOpen(t, again, "sync"), 0), 8, 3) // the start has written a checkpoint
	before := errs.Calls(errfs.Write | errfs.Datasync | errfs.SyncDir)
	must(t, l.dir.SaveHigh(l.dir.Logs()[:0]))
	must(t, l.dir.SaveHigh(l.dir.Logs()[:0]))
	if n := errs.Calls(errfs.Write|errfs.Datasync|errfs.SyncDir) - before; n != 1 {
		t.Errorf("saving the same twice took %d writes and syncs", n)
	}
}

// A saved high watermark does not count for other records that took the offsets below it, for a log
// that ends below it, or if the file is damaged.
func TestASavedHighWatermarkBelongsToItsRecords(t *testing.T) {
	if h := highAfterOtherRecords(t, broken{}); h != 5 {
		t.Errorf("after other records took its offsets the high watermark is %d", h)
	}
	disk, _, l := savedHigh(t, broken{})
	must(t, l.Truncate(6))
	wantHigh(t, byPartition(t, mustOpen(t, disk.KillImage(1), "sync"), 0), 6, 3)

	disk, _, _ = savedHigh(t, broken{})
	for _, damage := range []func(b []byte) []byte{
		func(b []byte) []byte { b[len(b)-5]++; return b },
		func(b []byte) []byte { return b[:len(b)-1] },
		func([]byte) []byte { return nil },
	} {
		image := disk.KillImage(1)
		b := damage(readFile(t, image, "/d/"+HighFile))
		must(t, image.Remove("/d/"+HighFile))
		writeFile(t, image, "/d/"+HighFile, b)
		wantHigh(t, byPartition(t, mustOpen(t, image, "sync"), 0), 0, -1)
	}
}

// highAfterOtherRecords returns the high watermark that a start finds after an unclean truncation
// below the saved one, when records of a newer epoch have taken the offsets.
func highAfterOtherRecords(t *testing.T, b broken) int64 {
	t.Helper()
	disk, _, l := savedHigh(t, b)
	must(t, l.Truncate(5))
	l.Observe(knowing{high: 5, epoch: 3})
	putInEpoch(t, l, 4, 6)
	d := mustOpen(t, disk.KillImage(1), "sync", func(o *Options) { o.broken = b })
	high, _ := byPartition(t, d, 0).RecoveredHigh()
	return high
}
