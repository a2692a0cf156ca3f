package storage

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// idleLogs creates n logs with one segment each, under a policy that removes nothing.
func idleLogs(t testing.TB, fs vfs.FS, n int) *Dir {
	t.Helper()
	d := mustOpen(t, fs, "sync", large)
	specs := make([]Spec, n)
	for i := range specs {
		specs[i] = Spec{ID: ID{Topic: [16]byte{1}, Partition: int32(i)}, Topic: "t", Config: keeping("sync", hour, 1<<30)}
	}
	logs, err := d.Create(specs)
	must(t, err)
	data := testBatch(t, 100, nil)
	for _, l := range logs {
		l.Observe(idle{})
		send(l, data)
	}
	for _, l := range logs {
		eventually(t, "the record counts", func() bool { return l.AckEnd() == 1 })
		must(t, l.flush())
	}
	for _, l := range logs { // records of 1970 under a policy of many years
		cfg := l.Config()
		cfg.Cleanup.RetentionTime = time.Duration(1<<63 - 1)
		l.cfg.Store(&cfg)
	}
	return d
}

// A run over many logs that removes nothing reads each log once after a start, three small files
// each, and nothing in later runs.
func TestAnIdleRoundReadsNothing(t *testing.T) {
	const n = 500
	disk := vfs.Memory()
	must(t, idleLogs(t, disk, n).Close())
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync", large, func(o *Options) {
		o.Config = func(string, ID) Config {
			c := keeping("sync", -1, 1<<30)
			c.Cleanup.RetentionTime = time.Duration(1<<63 - 1)
			return c
		}
	})
	for _, l := range d.Logs() {
		l.Observe(idle{})
	}
	errs.Clear()
	calls := rounds(errs)
	d.applyRetention()
	first := calls.Hits()
	if first > 12*n || first < n {
		t.Errorf("the first round takes %d calls for %d logs", first, n)
	}
	d.applyRetention()
	if second := calls.Hits() - first; second > 0 {
		t.Errorf("the second round takes %d calls", second)
	}
}

// counting is an observer that counts how often retention asks it for the high watermark.
type counting struct {
	idle
	asked *atomic.Int64
}

func (c counting) High() (int64, int32) { c.asked.Add(1); return c.idle.High() }

// A change of one log's configuration has retention examine that log, not all of them: a change of
// one topic must not cost more because the broker has many partitions.
func TestAConfigurationExaminesItsOwnLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		d := idleLogs(t, vfs.Memory(), n)
		defer d.Close()
		synctest.Wait()
		var asked, others atomic.Int64
		for i, l := range d.Logs() {
			if l.Observe(counting{asked: &others}); i == 0 {
				l.Observe(counting{asked: &asked})
			}
		}
		for i := range 10 {
			d.Logs()[0].Configure(keeping("sync", hour, int64(i+1)<<20))
			synctest.Wait()
		}
		if asked.Load() < 10 || others.Load() > 0 {
			t.Errorf("after 10 changes the log was examined %d times, the others %d times", asked.Load(), others.Load())
		}
	})
}

// rounds counts the calls from now on, except those that are independent of retention: measuring
// the free space, and preparing the next journal file.
func rounds(errs *errfs.FS) *errfs.Fault {
	return errs.Add(errfs.Rule{Ops: errfs.Any &^ errfs.Free,
		When: func(c errfs.Call) bool {
			return !strings.HasPrefix(c.Path, "/d/journal") && !strings.HasPrefix(c.Path, "/d/"+ScrubFile)
		}})
}

// BenchmarkIdleRound measures a retention run over 10,000 logs that removes nothing.
func BenchmarkIdleRound(b *testing.B) {
	d := idleLogs(b, vfs.Memory(), 10_000)
	b.ReportAllocs()
	for b.Loop() {
		d.applyRetention()
	}
}
