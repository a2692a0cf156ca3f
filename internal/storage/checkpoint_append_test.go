package storage

import (
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// knowProducers makes a log know n idempotent producers, as if they had written below its recovery
// point.
func knowProducers(t *testing.T, l *Log, n int64) {
	t.Helper()
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	for id := range n {
		b := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: id}})
		b.Append(1, nil, []byte("v"), nil)
		data, err := b.Build()
		must(t, err)
		data.SetBaseOffset(-10)
		l.producers.Add(data, time.Now())
	}
}

// A sweep writes the logs that moved since the last one, and not those that did not.
func TestASweepWritesWhatMoved(t *testing.T) {
	errs := errfs.New(vfs.Memory())
	d := mustOpen(t, errs, "sync", func(o *Options) { o.JournalFileSize, o.JournalBytes = 1<<20, 64<<20 }) // no sweep of its own
	logs := makeLogs(t, d, 50, "sync")
	for _, l := range logs {
		knowProducers(t, l, 200)
		put(t, l, 1, 10)
		must(t, l.flushAndSync())
	}
	var n atomic.Int64
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: path.Join(d.path, CheckpointDir, "*"), Before: func(c errfs.Call) { n.Add(c.Len) }})
	checkpoint := func() int64 {
		n.Store(0)
		must(t, d.checkpoint(nil))
		return n.Load()
	}
	all := checkpoint()
	put(t, logs[7], 1, 10)
	must(t, logs[7].flushAndSync())
	one, none := checkpoint(), checkpoint()
	if one < all/100 || one > all/20 || none > 500 {
		t.Errorf("a checkpoint of 50 logs that moved writes %d bytes, of one %d, of none %d", all, one, none)
	}
	redo := func() uint64 {
		d.ckptMu.Lock()
		defer d.ckptMu.Unlock()
		return uint64(d.last.Redo.LSN)
	}
	if got, want := redo(), uint64(d.journal.Notified()+1); got != want {
		t.Errorf("the redo pointer is %d, want %d: logs that did not move need no frames", got, want)
	}
}

// Creations and deletions do not wait for a whole checkpoint, and count after it.
func TestCommitsDoNotWaitForAWholeCheckpoint(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync", func(o *Options) { o.compactBytes = 2000 })
	logs := makeLogs(t, d, 3, "sync")
	hold, release := gated(t)
	held := errs.Add(errfs.Rule{Ops: errfs.Write, Path: path.Join(d.path, CheckpointDir, "*.snapshot.tmp"), Count: 1,
		Before: func(errfs.Call) { <-hold }})
	made := 0
	for created := byte(2); held.Hits() == 0 && created < 150; created++ {
		spec := Spec{ID: ID{Topic: [16]byte{created}}, Topic: strings.Repeat("n", int(created)), Config: testConfig("sync")}
		if _, err := d.Create([]Spec{spec}); err != nil {
			t.Fatal(err)
		}
		made++
	}
	eventually(t, "a whole checkpoint is written", func() bool { return held.Hits() > 0 })
	put(t, logs[0], 3, 10)
	must(t, logs[0].flushAndSync())
	must(t, d.Delete(logs[1]))
	must(t, d.checkpoint(nil))
	check := func(when string) {
		t.Helper()
		again := mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), "sync")
		if n := len(again.Logs()); n != made+2 {
			t.Errorf("%s: %d logs, want %d", when, n, made+2)
		}
		for _, l := range again.Logs() {
			if l.id == logs[0].id {
				holds(t, l, 3)
			}
		}
		_ = again.Close()
	}
	check("while it is written")
	snapshots := func() string { return namesIn(t, errs, path.Join(d.path, CheckpointDir), ".snapshot") }
	before := snapshots()
	release()
	eventually(t, "the whole checkpoint is there", func() bool { return snapshots() != before && !strings.Contains(snapshots(), ".tmp") })
	check("after it")
}

// sweepAfterADeletion deletes one of two logs. A sweep runs before the deletion is committed, and
// the power fails. It returns how many logs there are then.
func sweepAfterADeletion(t *testing.T, b broken) int {
	t.Helper()
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync", func(o *Options) { o.broken = b })
	logs := makeLogs(t, d, 2, "sync")
	for _, l := range logs {
		put(t, l, 3, 10)
	}
	lc, _ := logs[1].checkpointed(false)
	d.putTombstones(logs[1:], []checkpoint.Log{lc})
	must(t, logs[0].flushAndSync())
	must(t, d.checkpoint(nil))
	return len(mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), "sync").Logs())
}

// The redo pointer passes the frames of a deleted log only together with its tombstone. Otherwise a
// start would have the log, without these frames.
func TestASweepCommitsDeletions(t *testing.T) {
	if n := sweepAfterADeletion(t, broken{}); n != 1 {
		t.Errorf("%d logs", n)
	}
}
