package storage

import (
	"testing"

	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/vfs/errfs"
)

// Many logs are deleted with one checkpoint and one sync of their directory, and
// stay deleted; their neighbours stay as they were.
func TestManyLogsAreDeletedAtOnce(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	d := mustOpen(t, disk, "sync")
	logs := makeLogs(t, d, 100, "sync")
	for _, l := range logs {
		put(t, l, 3, 100)
		if err := l.flush(); err != nil {
			t.Fatal(err)
		}
	}
	syncs, dirs := disk.Calls(errfs.Datasync), disk.Calls(errfs.SyncDir)
	if err := d.Delete(logs[1:]...); err != nil {
		t.Fatal(err)
	}
	// A sweep may come between.
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
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = mustOpen(t, disk, "sync")
	if n := len(d.Logs()); n != 1 {
		t.Fatalf("%d logs after a start", n)
	}
	holds(t, d.Logs()[0], 3)
}
