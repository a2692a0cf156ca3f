package storage

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Retention does not wait for a log whose files are being changed, which a truncation may do for
// minutes. It returns to that log later.
func TestRetentionPassesABusyLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := openDir(vfs.Memory(), "sync", func(o *Options) { o.RetentionInterval = time.Hour })
		must(t, err)
		defer d.Close()
		logs := makeLogs(t, d, 3, "sync")
		for _, l := range logs {
			l.Observe(idle{})
			put(t, l, 3, 100) // of 1970
		}
		logs[1].flushMu.Lock()
		for _, l := range logs {
			l.Configure(keeping("sync", 1000, -1))
		}
		if d.applyRetention() {
			t.Error("it looked at a log whose files are being changed")
		}
		for i, want := range []int64{3, 0, 3} {
			if got := logs[i].Ends().LogStart; got != want {
				t.Errorf("partition %d begins at %d, want %d", i, got, want)
			}
		}
		logs[1].flushMu.Unlock()
		if !d.applyRetention() || logs[1].Ends().LogStart != 3 {
			t.Errorf("it has not come back: the log begins at %d", logs[1].Ends().LogStart)
		}
	})
}

// The configuration of a busy log is changed again and again. The runs over all logs come
// nevertheless.
func TestChangesOfABusyLogDoNotDelayTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := openDir(vfs.Memory(), "sync", func(o *Options) { o.RetentionInterval = time.Minute })
		must(t, err)
		defer d.Close()
		logs := makeLogs(t, d, 2, "sync")
		for _, l := range logs {
			l.Observe(idle{})
		}
		logs[0].Configure(keeping("sync", 1000, -1))
		synctest.Wait()
		put(t, logs[0], 3, 100) // of 1970
		logs[1].flushMu.Lock()
		for i := range int64(15) {
			logs[1].Configure(keeping("sync", 1000, i))
			time.Sleep(20 * time.Second)
		}
		logs[1].flushMu.Unlock()
		if got := logs[0].Ends().LogStart; got != 3 {
			t.Errorf("after five minutes, the other log begins at %d", got)
		}
	})
}
