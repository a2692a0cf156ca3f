package storage

import (
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// knowing is an observer with a high watermark.
type knowing struct {
	noopObserver
	high  int64
	epoch int32
}

func (k knowing) High() (int64, int32) { return k.high, k.epoch }

// wantHigh checks what a log knows of its high watermark.
func wantHigh(t *testing.T, l *Log, high int64, epoch int32) {
	t.Helper()
	if h, e := l.RecoveredHigh(); h != high || e != epoch {
		t.Errorf("%s: the recovered high watermark is %d of epoch %d, want %d of epoch %d", l, h, e, high, epoch)
	}
}

// A start knows the high watermark and its epoch from the last checkpoint: after a clean stop the
// last ones, after a crash older ones. Starts and checkpoints before a replica knows more keep
// them.
func TestAStartKnowsTheHighWatermark(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	wantHigh(t, l, 0, -1)
	put(t, l, 10, 100)
	l.Observe(knowing{high: 6, epoch: 3})
	must(t, d.checkpoint(nil))
	l.Observe(knowing{high: 8, epoch: 4})
	d = mustOpen(t, disk.KillImage(1), "sync")
	wantHigh(t, d.Logs()[0], 6, 3)
	if err := d.commit(d.Logs()...); err != nil { // no replica observes the log yet
		t.Fatal(err)
	}
	put(t, d.Logs()[0], 5, 100)
	wantHigh(t, d.Logs()[0], 6, 3)
	must(t, d.Close())
	must(t, l.dir.Close())
	wantHigh(t, mustOpen(t, disk, "sync").Logs()[0], 8, 4)
}

// A log of which nothing is known begins at its log start, with no epoch. A move of the log start
// takes the bound along.
func TestTheHighWatermarkIsNotBelowTheLogStart(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	logs := makeLogs(t, d, 2, "sync")
	for _, l := range logs {
		put(t, l, 10, 100)
	}
	logs[1].Observe(knowing{high: 3, epoch: 2})
	for _, l := range logs {
		must(t, l.SetLogStart(5))
	}
	d = mustOpen(t, disk.KillImage(1), "sync")
	wantHigh(t, byPartition(t, d, 0), 5, -1)
	wantHigh(t, byPartition(t, d, 1), 5, 2)
}

// A power loss may take records below the stored high watermark. The bound is then the log end, and
// stays there when other records follow.
func TestTheHighWatermarkIsNotAboveTheLogEnd(t *testing.T) {
	for range 100 { // the journal may sync on its own, and then nothing is lost
		disk := crashfs.New(1)
		d := mustOpen(t, disk, "os")
		l := makeLogs(t, d, 1, "os")[0]
		put(t, l, 4, 100)
		for range 6 {
			if a := send(l, testBatch(t, 100, nil)); a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		eventually(t, "the records are written", func() bool { return l.AckEnd() == 10 })
		l.Observe(knowing{high: 10, epoch: 7})
		must(t, d.commit(l))
		d = mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), "os")
		l = d.Logs()[0]
		end := l.Ends().LogEnd
		wantHigh(t, l, end, 7)
		put(t, l, 9, 100)
		wantHigh(t, l, end, 7)
		if end < 10 {
			return
		}
	}
	t.Error("no power loss has taken records")
}

// A truncation below the high watermark lowers the stored one with the same checkpoint: other
// records that take these offsets afterwards do not count as committed.
func TestATruncationLowersTheHighWatermark(t *testing.T) {
	for name, observed := range map[string]bool{"with a replica that lags behind": true, "before a replica observes the log": false} {
		disk := crashfs.New(1)
		d := mustOpen(t, disk, "sync")
		l := makeLogs(t, d, 1, "sync")[0]
		put(t, l, 10, 100)
		l.Observe(knowing{high: 10, epoch: 1})
		if err := d.commit(l); err != nil {
			t.Fatal(name, err)
		}
		if !observed {
			d = mustOpen(t, disk.KillImage(1), "sync")
			disk = d.opt.FS.(*crashfs.FS)
			l = d.Logs()[0]
			wantHigh(t, l, 10, 1)
		}
		if err := l.Truncate(4); err != nil {
			t.Fatal(name, err)
		}
		if observed { // the replica follows; a checkpoint in the background would store what it says
			l.Observe(knowing{high: 4, epoch: 1})
		}
		put(t, l, 20, 100)
		wantHigh(t, mustOpen(t, disk.KillImage(1), "sync").Logs()[0], 4, 1)
		if !observed {
			wantHigh(t, l, 4, 1)
		}
		if err := l.Reset(50); err != nil {
			t.Fatal(name, err)
		}
		if observed {
			l.Observe(knowing{high: 50, epoch: 1})
		}
		put(t, l, 3, 100)
		wantHigh(t, mustOpen(t, disk.KillImage(1), "sync").Logs()[0], 50, 1)
	}
}
