package storage

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A lack of file descriptors loses no record that was acknowledged as written: the log refuses
// records for a while, and accepts them again without an operator.
func TestFault05WrittenRecordsOutliveALackOfDescriptors(t *testing.T) {
	for name, op := range map[string]errfs.Op{"next segment": errfs.Create, "open": errfs.Open} {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		d := mustOpen(t, errs, "os", func(o *Options) { o.OpenFiles = 1 })
		logs := makeLogs(t, d, 2, "os")
		cfg := testConfig("os")
		cfg.Segment.Bytes = 4000
		logs[0].Configure(cfg)
		put(t, logs[0], 3, 900)
		put(t, logs[1], 3, 900) // uses the descriptor
		lack := errs.Add(errfs.Rule{Ops: op, Path: "/d/t-0/*.log", Err: syscall.EMFILE})
		var refused error
		for i := 0; refused == nil && i < 100; i++ {
			if a := send(logs[0], testBatch(t, 900, nil)); a.Err != nil {
				refused = a.Err
			}
			_ = logs[0].flushAndSync()
			put(t, logs[1], 1, 10)
			_ = logs[1].flushAndSync() // another descriptor again
		}
		if !errors.Is(refused, ErrFailed) || !errors.Is(refused, syscall.EMFILE) {
			t.Fatalf("%s: refused with %v, %d hits", name, refused, lack.Hits())
		}
		if err := logs[0].Offline(); err != nil {
			t.Fatalf("%s: offline: %v", name, err)
		}
		acked := logs[0].AckEnd()
		lack.Off()
		eventually(t, name+": the log takes records again", func() bool { return logs[0].Err() == nil })
		if logs[0].AckEnd() < acked {
			t.Errorf("%s: %d was acknowledged, now %+v", name, acked, logs[0].Ends())
		}
		put(t, logs[0], 6, 900)
		holds(t, logs[0], logs[0].Ends().LogEnd)
		want := logs[0].AckEnd()
		holds(t, byPartition(t, mustOpen(t, disk.KillImage(1), "os"), 0), want)
	}
}

// A truncation whose checkpoint or files fail for a while is finished when they work again. Until
// then the log accepts no records, and a crash leaves the old end or the new one.
func TestTruncationIsFinishedLater(t *testing.T) {
	for _, profile := range []string{"sync", "os"} {
		for name, rule := range map[string]errfs.Rule{
			"checkpoint":  {Ops: errfs.Write, Path: "/d/checkpoint/*", Err: syscall.EIO},
			"full disk":   {Ops: errfs.Write, Path: "/d/checkpoint/*", Err: syscall.ENOSPC},
			"descriptors": {Ops: errfs.Open, Path: "/d/t-0/*.log", Err: syscall.EMFILE},
		} {
			disk := crashfs.New(1)
			errs := errfs.New(disk)
			d := mustOpen(t, errs, profile, func(o *Options) { o.OpenFiles = 1 })
			logs := makeLogs(t, d, 2, profile)
			put(t, logs[0], 10, 500)
			for _, l := range logs {
				put(t, l, 1, 500)
				must(t, l.flushAndSync())
			}
			fault := errs.Add(rule)
			if err := logs[0].Truncate(4); err == nil && profile == "os" {
				t.Fatalf("%s, %s: nothing failed, %d hits", profile, name, fault.Hits())
			} else if err == nil {
				continue // not in progress
			}
			ends := logs[0].Ends()
			if ends.LogEnd == 4 {
				if a := send(logs[0], testBatch(t, 10, nil)); !errors.Is(a.Err, ErrFailed) {
					t.Errorf("%s, %s: an append to a log that is being cut: %v", profile, name, a.Err)
				}
			}
			for _, image := range []*crashfs.FS{disk.KillImage(1), disk.PowerLossImage(crashfs.DropUnsynced, 1)} {
				l := byPartition(t, mustOpen(t, image, profile), 0)
				if end := l.Ends().LogEnd; end != 4 && end != 11 {
					t.Errorf("%s, %s: after a crash in the middle the log ends at %d", profile, name, end)
				}
				holds(t, l, l.Ends().LogEnd)
			}
			fault.Off()
			eventually(t, profile+", "+name+": the log takes records again", func() bool { return logs[0].Err() == nil })
			if err := logs[0].Truncate(4); err != nil { // repeated by the caller that got the error
				t.Fatal(err)
			}
			put(t, logs[0], 2, 100)
			holds(t, logs[0], 6)
			holds(t, byPartition(t, mustOpen(t, disk.KillImage(2), profile), 0), 6)
		}
	}
}

// Close returns whatever the disk does, with an error if something could not be flushed. The next
// start has all acknowledged records.
func TestCloseEndsOnADeadOrFullDisk(t *testing.T) {
	for name, rules := range map[string][]errfs.Rule{
		"dead":                {{Ops: errfs.Any &^ errfs.Close, Err: syscall.EIO}},
		"full":                {{Ops: errfs.Write | errfs.Create | errfs.Allocate, Err: syscall.ENOSPC}},
		"segments full":       {{Ops: errfs.Write | errfs.Create, Path: "/d/t-*/*.log", Err: syscall.ENOSPC}},
		"no syncs":            {{Ops: errfs.Datasync, Err: syscall.EIO, Drop: errfs.DropCached}},
		"checkpoint":          {{Ops: errfs.Any &^ errfs.Close, Path: "checkpoint*", Err: syscall.EIO}},
		"journal cannot grow": {{Ops: errfs.Create | errfs.Rename, Path: "*.journal", Err: syscall.ENOSPC}},
	} {
		for _, waiting := range []int{0, 100} { // of 4000 bytes: more than the journal's size
			synctest.Test(t, func(t *testing.T) {
				disk := crashfs.New(1)
				errs := errfs.New(disk)
				d := mustOpen(t, errs, "sync", func(o *Options) { o.DeferredBytes = 1 << 20 })
				logs := makeLogs(t, d, 4, "sync")
				for _, l := range logs {
					put(t, l, 5, 1000)
				}
				logs[3].Configure(testConfig("os"))
				synctest.Wait()
				for _, r := range rules {
					errs.Add(r)
				}
				var told []*Append
				for i := range waiting {
					a := &Append{Batches: testBatch(t, 4000, nil), Sink: make(sink, 1)}
					logs[i%4].Append(a, nil)
					told = append(told, a)
				}
				logs[2].Configure(testConfig("os")) // changes while the journal is full
				time.Sleep(2 * time.Second)
				closed := make(chan error, 1)
				go func() { closed <- d.Close() }()
				select {
				case err := <-closed:
					if err == nil && name != "journal cannot grow" && name != "segments full" {
						t.Errorf("%s, %d waiting: closed without an error", name, waiting)
					}
				case <-time.After(time.Minute):
					panic(fmt.Sprintf("%s, %d waiting: Close does not end", name, waiting))
				}
				for _, a := range told {
					<-a.Sink.(sink)
				}
				again := mustOpen(t, vfs.FS(disk.PowerLossImage(crashfs.DropUnsynced, 1)), "sync")
				for _, l := range again.Logs() {
					if e := l.Ends(); e.LogEnd < 5 || l.Offline() != nil {
						t.Errorf("%s, %d waiting: %s: %+v, %v", name, waiting, l, e, l.Offline())
					}
					holds(t, l, l.Ends().LogEnd)
				}
				_ = again.Close()
			})
		}
	}
}
