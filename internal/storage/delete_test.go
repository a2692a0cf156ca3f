package storage

import (
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Many logs are deleted with one checkpoint and one sync of their directory, and stay deleted. The
// other logs are not affected.
func TestManyLogsAreDeletedAtOnce(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	d := mustOpen(t, disk, "sync")
	logs := makeLogs(t, d, 100, "sync")
	for _, l := range logs {
		put(t, l, 3, 100)
		must(t, l.flush())
	}
	syncs, dirs := disk.Calls(errfs.Datasync), disk.Calls(errfs.SyncDir)
	must(t, d.Delete(logs[1:]...))
	// A sweep may write a checkpoint in between.
	if n := disk.Calls(errfs.Datasync) - syncs; n > 20 {
		t.Errorf("%d datasyncs", n)
	}
	if n := disk.Calls(errfs.SyncDir) - dirs; n > 10 {
		t.Errorf("%d syncs of directories", n)
	}
	if err := d.Delete(logs[1:]...); err != nil {
		t.Errorf("once more: %v", err)
	}
	if a := send(logs[1], testBatch(t, 10, nil)); a.Err == nil {
		t.Error("a deleted log takes records")
	}
	holds(t, logs[0], 3)
	must(t, d.Close())
	d = mustOpen(t, disk, "sync")
	if n := len(d.Logs()); n != 1 {
		t.Fatalf("%d logs after a start", n)
	}
	holds(t, d.Logs()[0], 3)
}

// Chunks that the journal is writing keep their bytes when the log is deleted; their memory is
// reused only afterwards. A frame whose bytes changed during the write would end the next recovery,
// which would lose all acknowledged frames after it.
func TestDeleteLeavesTheJournalItsMemory(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	logs := makeLogs(t, d, 2, "sync")
	put(t, logs[0], 1, 100)
	hold, let := gated(t)
	held := errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Write, Count: 1, Before: func(errfs.Call) { <-hold }}))
	data := testBatch(t, 20_000, nil) // more than is copied next to its frame's header
	send(logs[1], data)
	eventually(t, "the write began", func() bool { return held.Hits() > 0 })
	must(t, d.Delete(logs[1]))
	var others []*bufpool.Buffer
	for range 16 { // a pool returns them in no particular order
		b := d.memory.pool.Get(len(data))
		clear(b.Bytes())
		others = append(others, b)
	}
	let()
	put(t, logs[0], 1, 100)
	image := disk.PowerLossImage(crashfs.DropUnsynced, 1)
	for _, b := range others {
		b.Release()
	}
	again := mustOpen(t, image, "sync").Logs()
	if len(again) != 1 {
		t.Fatalf("%d logs after a start", len(again))
	}
	holds(t, again[0], 2)
	must(t, d.Close())
	if n := d.memory.pool.Outstanding(); n != 0 {
		t.Errorf("%d buffers are still in use", n)
	}
}

// unknownFrames returns the name of a quarantine file of an unknown log, "" if there is none.
func unknownFrames(fsys vfs.FS) string {
	infos, err := fsys.List("/d")
	if err != nil {
		return err.Error()
	}
	for _, in := range infos {
		if strings.HasPrefix(in.Name, unknownPrefix) {
			return in.Name
		}
	}
	return ""
}

// framesOfADeletedLog deletes a log whose frames are in the journal file of the redo pointer, below
// it. It returns the name of the file in which a start after a kill stores these frames.
func framesOfADeletedLog(t *testing.T, b broken) string {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync", func(o *Options) { o.broken = b })
	logs := makeLogs(t, d, 2, "sync")
	put(t, logs[0], 3, 1000)
	put(t, logs[1], 3, 1000)
	must(t, d.Delete(logs[0]))
	put(t, logs[1], 3, 1000)
	must(t, logs[1].flushAndSync())
	must(t, d.checkpoint(nil)) // the tombstone is not needed any longer
	d.ckptMu.Lock()
	must(t, d.checkpointAll(nil, false)) // it no longer lists the deleted log
	d.ckptMu.Unlock()
	put(t, logs[1], 1, 1000)
	image := disk.KillImage(1)
	holds(t, byPartition(t, mustOpen(t, image, "sync", func(o *Options) { o.broken = b }), 1), 7)
	return unknownFrames(image)
}

// A start does not bring back the records of a deleted log that no checkpoint lists any longer.
func TestAStartDoesNotKeepFramesOfADeletedLog(t *testing.T) {
	if name := framesOfADeletedLog(t, broken{}); name != "" {
		t.Errorf("%s has them", name)
	}
}
