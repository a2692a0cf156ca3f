package storage

import (
	"testing"
	"time"
)

// While space is low, the files of removed segments are deleted at once: the records were deleted
// to free space, which file.delete.delay.ms would delay.
func TestATrimFreesBytesAtOnceWhileSpaceIsLow(t *testing.T) {
	fsys := newGauge(1000 * mib)
	d := mustOpen(t, fsys, "sync", guarded)
	client, _ := ours(t, d)
	cfg := client.Config()
	cfg.Cleanup.DeleteDelay = time.Hour
	client.Configure(cfg)
	retired := func() (later int) {
		d.retention.mu.Lock()
		defer d.retention.mu.Unlock()
		for _, g := range d.retention.pending {
			if g.due.After(time.Now()) {
				later++
			}
		}
		return later
	}
	for range 2 {
		put(t, client, 5, 100)
		must(t, client.roll())
	}
	must(t, client.SetLogStart(5))
	if retired() != 1 {
		t.Fatal("with room, the files don't stay for the delay")
	}
	fsys.leave(t, d, 60*mib) // which also deletes what was retired before
	eventually(t, "what was retired is removed", func() bool { return retired() == 0 })
	must(t, client.SetLogStart(10))
	if retired() > 0 {
		t.Error("a trim keeps its bytes for the delay")
	}
}
