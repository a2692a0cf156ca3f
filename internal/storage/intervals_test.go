package storage

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/vfs/errfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

func intervalConfig(interval time.Duration) Config {
	c := testConfig("interval")
	c.Profile = durability.Profile{Name: "slow", Ack: durability.Written, Sync: durability.SyncInterval, Interval: interval}
	return c
}

// A log is synced once per interval, however often it is written, and never
// later than an interval after a write: also one with a short interval beside
// one with a long one, and again after a pause.
func TestEveryIntervalIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := errfs.New(vfs.Memory())
		d := mustOpen(t, faulty, "interval")
		logs := makeLogs(t, d, 2, "interval")
		slow, quick := logs[0], logs[1]
		slow.Configure(intervalConfig(time.Second))
		quick.Configure(intervalConfig(20 * time.Millisecond))
		for range 2 {
			put(t, slow, 1, 10)
			synctest.Wait()
			before := faulty.Calls(errfs.Datasync)
			for range 50 {
				time.Sleep(10 * time.Millisecond)
				put(t, slow, 1, 10)
			}
			if n := faulty.Calls(errfs.Datasync) - before; n > 2 {
				t.Errorf("%d syncs in half an interval", n)
			}
			put(t, quick, 1, 10)
			put(t, quick, 1, 10)
			time.Sleep(25 * time.Millisecond)
			synctest.Wait()
			if e := quick.Ends(); e.Durable != e.LogEnd {
				t.Errorf("the quick log is durable up to %d of %d", e.Durable, e.LogEnd)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if e := slow.Ends(); e.Durable != e.LogEnd {
				t.Errorf("the slow log is durable up to %d of %d", e.Durable, e.LogEnd)
			}
			time.Sleep(time.Minute) // nobody writes
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A directory in which nothing is written sleeps: it costs no CPU.
func TestAnIdleDirectoryHasNothingDueAndNoTimer(t *testing.T) {
	d := mustOpen(t, vfs.Memory(), "interval")
	l := makeLogs(t, d, 1, "interval")[0]
	last, now := map[*Log]time.Time{l: time.Unix(1, 0)}, time.Unix(2, 0)
	if due, wait := d.dueForSync(last, now); due != nil || wait != 0 || len(last) != 0 {
		t.Errorf("due %v, wait %v, remembered %v", due, wait, last)
	}
}
