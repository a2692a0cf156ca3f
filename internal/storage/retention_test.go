package storage

import (
	"bytes"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// idle is an observer that sets no bounds.
type idle struct{}

func (idle) Appended(*groupcommit.Batch) {}
func (idle) Advanced()                   {}
func (idle) Reverted(int64, error)       {}
func (idle) Truncated(int64)             {}
func (idle) StartMoved()                 {}
func (idle) High() (int64, int32)        { return math.MaxInt64, 0 }
func (idle) Stable() int64               { return math.MaxInt64 }
func (idle) Copied() int64               { return math.MaxInt64 }
func (idle) Deleted() int64              { return 0 }

// bounded is an observer that sets them.
type bounded struct {
	idle
	high int64
}

func (b bounded) High() (int64, int32) { return b.high, 0 }
func (b bounded) Stable() int64        { return b.high }
func (b bounded) Copied() int64        { return math.MaxInt64 }
func (b bounded) Deleted() int64       { return 0 }

// keeping returns a configuration with retention and small segments; -1 for no limit.
func keeping(profile string, ms, size int64) Config {
	c := testConfig(profile)
	c.Segment.Bytes = 2 << 10
	c.Cleanup = Cleanup{Delete: true, RetentionTime: time.Duration(ms) * time.Millisecond, RetentionBytes: size, TimestampAfter: time.Hour}
	return c
}

// kept creates one log with a configuration.
func kept(t testing.TB, d *Dir, cfg Config) *Log {
	t.Helper()
	logs, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{1}}, Topic: "t", Config: cfg}})
	must(t, err)
	logs[0].Observe(idle{})
	return logs[0]
}

// putAt appends n records with a timestamp and waits until they are acknowledged.
func putAt(t testing.TB, l *Log, n, size int, ts int64) {
	t.Helper()
	for range n {
		b := record.NewBuilder(record.BatchOptions{})
		b.Append(ts, nil, bytes.Repeat([]byte{'v'}, size), nil)
		data, err := b.Build()
		must(t, err)
		if a := send(l, data); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	synced(t, l)
}

// files returns the names in the log's directory with a suffix.
func files(t testing.TB, l *Log, suffix string) (names []string) {
	t.Helper()
	infos, err := l.dir.opt.FS.List(l.path)
	must(t, err)
	for _, in := range infos {
		if strings.HasSuffix(in.Name, suffix) {
			names = append(names, in.Name)
		}
	}
	return names
}

const minute, hour = int64(60_000), int64(3_600_000)

func ago(ms int64) int64 { return time.Now().UnixMilli() - ms }

func TestRetentionByTime(t *testing.T) {
	for _, profile := range []string{"sync", "os"} {
		t.Run(profile, func(t *testing.T) {
			disk := crashfs.New(1)
			d := mustOpen(t, disk, profile)
			l := kept(t, d, keeping(profile, hour, -1))
			putAt(t, l, 6, 700, ago(2*hour)) // two per segment
			putAt(t, l, 4, 700, ago(minute))
			must(t, l.flush())
			d.applyRetention()
			if e := l.Ends(); e.LogStart != 6 || e.LogEnd != 10 {
				t.Fatalf("%+v", e)
			}
			holds(t, l, 10)
			if got := files(t, l, ".log"); len(got) != 2 || got[0] != "00000000000000000006.log" {
				t.Errorf("segments: %v", got)
			}
			if r := l.Retained(); !strings.Contains(r, "is younger than retention.ms 3600000") {
				t.Errorf("%+v", r)
			}
			_ = d.Close()
			again := mustOpen(t, disk, profile)
			if e := again.Logs()[0].Ends(); e.LogStart != 6 || e.LogEnd != 10 {
				t.Errorf("after a start: %+v", e)
			}
			holds(t, again.Logs()[0], 10)
		})
	}
}

// archived is an observer with an object store that has the records up to an offset.
type archived struct {
	idle
	end *int64
}

func (s archived) Copied() int64 { return *s.end }

// Retention removes only what the object store has, however old the rest is.
func TestRetentionKeepsWhatIsNotCopied(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	conf := keeping("sync", hour, -1)
	conf.Cleanup.CopyFirst = true
	l, end := kept(t, d, conf), int64(0)
	l.Observe(archived{end: &end})
	putAt(t, l, 6, 700, ago(2*hour)) // two per segment
	must(t, l.flush())
	for _, x := range [][2]int64{{0, 0}, {3, 2}, {4, 4}, {6, 6}} {
		end = x[0]
		d.applyRetention()
		if e := l.Ends(); e.LogStart != x[1] {
			t.Errorf("copied up to %d: the log starts at %d, want %d", x[0], e.LogStart, x[1])
		}
	}
}

// The records of a small quiet partition are only in the journal, and are carried from file to
// file. When all of them are old they are removed without ever reaching a segment, and the next
// records begin an empty log.
func TestRetentionOfRecordsOnlyInTheJournal(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := kept(t, d, keeping("sync", hour, -1))
	putAt(t, l, 3, 100, ago(2*hour))
	d.applyRetention()
	if e := l.Ends(); e.LogStart != 3 || e.LogEnd != 3 || l.Size() != 0 {
		t.Fatalf("%+v, %d bytes", e, l.Size())
	}
	if n := d.memory.deferred.Load() + d.memory.cached.Load(); n != 0 {
		t.Errorf("%d bytes of memory are still accounted for", n)
	}
	if got := files(t, l, ".log"); len(got) != 0 {
		t.Errorf("segments: %v", got)
	}
	putAt(t, l, 2, 100, ago(0))
	d.applyRetention()
	for name, image := range map[string]*crashfs.FS{"kill": disk.KillImage(1), "power loss": disk.PowerLossImage(crashfs.DropUnsynced, 1)} {
		back := mustOpen(t, image, "sync").Logs()[0]
		if e := back.Ends(); e.LogStart != 3 || e.LogEnd != 5 {
			t.Errorf("after a %s: %+v", name, e)
		}
		holds(t, back, 5)
	}
	holds(t, l, 5)
}

// When all records are old the active segment is also removed. The log has no segment, like a new
// one, and accepts records.
func TestRetentionLeavesAnEmptyLog(t *testing.T) {
	for _, profile := range []string{"sync", "os", "interval"} {
		t.Run(profile, func(t *testing.T) {
			disk := crashfs.New(1)
			d := mustOpen(t, disk, profile)
			l := kept(t, d, keeping(profile, hour, -1))
			putAt(t, l, 5, 700, ago(2*hour))
			must(t, l.flush())
			d.applyRetention()
			if e := l.Ends(); e.LogStart != 5 || e.LogEnd != 5 || l.Size() != 0 {
				t.Fatalf("%+v, %d bytes", e, l.Size())
			}
			if got := files(t, l, ".log"); len(got) != 0 || len(l.rp.Segments) != 0 {
				t.Errorf("segments: %v, in the recovery point: %v", got, l.rp.Segments)
			}
			if _, err := l.Read(4, 5, 1000, true); err == nil {
				t.Error("offset 4 can be read")
			}
			empty := mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), profile).Logs()[0]
			if e := empty.Ends(); e.LogStart != 5 || e.LogEnd != 5 {
				t.Errorf("after a power loss: %+v", e)
			}
			putAt(t, l, 3, 700, ago(0))
			holds(t, l, 8)
			image := disk.KillImage(1)
			holds(t, mustOpen(t, image, profile).Logs()[0], 8)
		})
	}
}

func TestRetentionBySize(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := kept(t, d, keeping("sync", -1, 4000))
	putAt(t, l, 11, 700, ago(0)) // two per segment of about 1540 bytes
	must(t, l.flush())
	putAt(t, l, 1, 700, ago(0)) // in memory
	all := l.Size()
	d.applyRetention()
	if left := l.Size(); left < 4000 || left > 4000+1600 || l.Ends().LogStart == 0 {
		t.Errorf("%d bytes of %d are left, start %d", left, all, l.Ends().LogStart)
	}
	holds(t, l, 12)
	if r := l.Retained(); !strings.Contains(r, "less than retention.bytes 4000") {
		t.Errorf("%+v", r)
	}
}

// Nothing above the high watermark is removed, and nothing of a log without an observer.
func TestRetentionStopsAtTheHighWatermark(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := kept(t, d, keeping("sync", hour, -1))
	putAt(t, l, 8, 700, ago(2*hour))
	must(t, l.flush())
	for _, c := range []struct {
		who   Observer
		start int64
		why   string
	}{{noopObserver{}, 0, "above the high watermark 0"}, {bounded{high: 5}, 4, "its end 6 is above the high watermark 5"},
		{idle{}, 8, ""}} {
		l.Observe(c.who)
		d.applyRetention()
		if start := l.Ends().LogStart; start != c.start {
			t.Errorf("%T: the log starts at %d, want %d", c.who, start, c.start)
		}
		if r := l.Retained(); !strings.Contains(r, c.why) || c.why == "" && r != "" {
			t.Errorf("%T: %+v", c.who, r)
		}
	}
}

// deposing is the observer of a log whose broker learns of another leader while retention looks.
type deposing struct {
	idle
	log *Log
}

func (o deposing) High() (int64, int32) {
	o.log.SetLeaderEpoch(9, false)
	return o.idle.High()
}

// What retention decided for a leader does not move the start of a log that follows meanwhile: the
// new leader would not know of that.
func TestRetentionMovesNoStartOfAFollower(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := kept(t, d, keeping("sync", hour, -1))
	putAt(t, l, 8, 700, ago(2*hour))
	must(t, l.flush())
	l.Observe(deposing{log: l})
	d.applyRetention()
	if start := l.Ends().LogStart; start != 0 {
		t.Errorf("the log of a follower starts at %d", start)
	}
}

// One checkpoint commits the new starts of many logs, and a run without removals writes none.
func TestManyStartsAreOneCheckpoint(t *testing.T) {
	errs := errfs.New(vfs.Memory())
	d := mustOpen(t, errs, "sync", large)
	var specs []Spec
	for i := range 300 {
		specs = append(specs, Spec{ID: ID{Topic: [16]byte{1}, Partition: int32(i)}, Topic: "t", Config: keeping("sync", hour, -1)})
	}
	logs, err := d.Create(specs)
	must(t, err)
	for i, l := range logs {
		l.Observe(idle{})
		putAt(t, l, 2, 100, ago(2*hour))
		if i%2 == 0 {
			must(t, l.flush())
		}
	}
	before := d.lastSeq()
	d.applyRetention()
	for _, l := range logs {
		if e := l.Ends(); e.LogStart != 2 {
			t.Fatalf("%s: %+v", l, e)
		}
	}
	if n := d.lastSeq() - before; n != 1 {
		t.Errorf("%d checkpoints", n)
	}
	eventually(t, "their files are gone", func() bool {
		return !slices.ContainsFunc(logs, func(l *Log) bool { return len(files(t, l, ".deleted")) > 0 })
	})
	calls := rounds(errs)
	d.applyRetention()
	if n := calls.Hits(); n > 0 {
		t.Errorf("a round in which nothing goes makes %d calls", n)
	}
}

// Each removal is logged and counted with its reason.
func TestARemovalIsLoggedAndCounted(t *testing.T) {
	core, said := observer.New(zap.InfoLevel)
	m := metrics.NewStorage(nil)
	d := mustOpen(t, crashfs.New(1), "sync", func(o *Options) { o.Logger, o.Metrics = zap.New(core), m })
	l := kept(t, d, keeping("sync", hour, 3000))
	putAt(t, l, 2, 700, ago(2*hour))
	putAt(t, l, 9, 700, ago(0))
	must(t, l.flush())
	d.applyRetention()
	must(t, l.SetLogStart(l.Ends().LogStart+2))
	var got []string
	for _, e := range said.FilterMessage("segment removed").All() {
		f := e.ContextMap()
		got = append(got, fmt.Sprint(f["topic"], "-", f["partition"], " ", f["from"], "-", f["to"], " ", f["reason"]))
		if f["bytes"].(int64) < 1500 || f["why"] == "" {
			t.Errorf("%v", f)
		}
	}
	want := []string{"t-0 0-2 time", "t-0 2-4 size", "t-0 4-6 size", "t-0 6-8 start"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for reason, n := range map[string]float64{"time": 1, "size": 2, "start": 1} {
		if got := testutil.ToFloat64(m.Retention.Segments.WithLabelValues("/d", reason)); got != n {
			t.Errorf("%v segments by %s, want %v", got, reason, n)
		}
		if got := testutil.ToFloat64(m.Retention.Bytes.WithLabelValues("/d", reason)); got < 1500*n {
			t.Errorf("%v bytes by %s", got, reason)
		}
	}
}

// The files of removed segments stay for file.delete.delay.ms under another name. Close does not
// wait for that, and a start deletes them.
func TestFilesAreDeletedAfterTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(1)
		d, err := openDir(disk, "sync")
		must(t, err)
		cfg := keeping("sync", hour, -1)
		cfg.Cleanup.DeleteDelay = time.Minute
		l := kept(t, d, cfg)
		remove := func(to int64) {
			putAt(t, l, 4, 700, time.Now().UnixMilli())
			must(t, l.flush())
			must(t, l.SetLogStart(to))
		}
		remove(2)
		if got := files(t, l, ".deleted"); !slices.Equal(got, []string{"00000000000000000000.log.deleted"}) {
			t.Errorf("%q", got)
		}
		time.Sleep(59 * time.Second)
		remove(4)
		if got := files(t, l, ".deleted"); len(got) != 2 {
			t.Errorf("before a minute is over: %q", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := files(t, l, ".deleted"); !slices.Equal(got, []string{"00000000000000000002.log.deleted"}) {
			t.Errorf("after a minute: %q", got)
		}
		remove(6)
		d.Reclaim() // a full disk
		synctest.Wait()
		if got := files(t, l, ".deleted"); len(got) != 0 {
			t.Errorf("on a full disk: %q", got)
		}
		remove(8)
		began := time.Now()
		if err := d.Close(); err != nil || time.Since(began) > time.Second {
			t.Errorf("the stop took %v: %v", time.Since(began), err)
		}
		again, err := openDir(disk, "sync")
		must(t, err)
		defer again.Close()
		if got := files(t, again.Logs()[0], ".deleted"); len(got) != 0 {
			t.Errorf("after a start: %q", got)
		}
		holds(t, again.Logs()[0], 16)
	})
}

// Retention runs at intervals, and at once when the configuration changes.
func TestRetentionRunsAtIntervalsAndOnChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := openDir(crashfs.New(1), "sync", func(o *Options) { o.RetentionInterval = time.Minute })
		must(t, err)
		defer d.Close()
		l := kept(t, d, keeping("sync", hour, -1))
		putAt(t, l, 2, 700, time.Now().UnixMilli())
		time.Sleep(30 * time.Minute)
		if start := l.Ends().LogStart; start != 0 {
			t.Fatalf("after half of retention.ms the log starts at %d", start)
		}
		time.Sleep(32 * time.Minute)
		if start := l.Ends().LogStart; start != 2 {
			t.Fatalf("after retention.ms the log starts at %d", start)
		}
		putAt(t, l, 2, 700, time.Now().Add(-30*time.Minute).UnixMilli())
		l.Configure(keeping("sync", minute, -1))
		synctest.Wait()
		if start := l.Ends().LogStart; start != 4 {
			t.Errorf("after the change of retention.ms the log starts at %d", start)
		}
		putAt(t, l, 2, 700, time.Now().UnixMilli())
		time.Sleep(2 * time.Second)
		l.Configure(l.Config()) // nothing changed
		synctest.Wait()
		if start := l.Ends().LogStart; start != 4 {
			t.Errorf("the log starts at %d", start)
		}
	})
}

// A start removes segments that an unfinished removal left below the log start.
func TestAStartRemovesSegmentsBelowTheLogStart(t *testing.T) {
	for _, profile := range []string{"sync", "os"} {
		disk := crashfs.New(1)
		d := mustOpen(t, disk, profile)
		l := kept(t, d, keeping(profile, -1, -1))
		putAt(t, l, 8, 700, ago(0))
		must(t, l.flushAndSync())
		m := StartMove{Log: l, To: 5}
		must(t, l.raiseStart(&m))
		must(t, d.checkpoint(nil))
		again := mustOpen(t, disk.KillImage(1), profile)
		if got, want := files(t, again.Logs()[0], ".log"), path.Base(l.segments[2].Path()); got[0] != want {
			t.Errorf("%s: segments %v, want %s first", profile, got, want)
		}
		holds(t, again.Logs()[0], 8)
	}
}

// The start of a log with the os profile moved to its end, and the log was written to before its
// segment was removed. The segment stays, also after a kill.
func TestRecordsBehindTheNewStartStay(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "os")
	cfg := keeping("os", -1, -1)
	cfg.Segment.Bytes = 1 << 20
	l := kept(t, d, cfg)
	putAt(t, l, 5, 100, ago(0))
	m := StartMove{Log: l, To: 5}
	must(t, l.raiseStart(&m))
	must(t, d.checkpoint(nil))
	putAt(t, l, 2, 100, ago(0))
	l.dropBelow(&m)
	holds(t, l, 7)
	back := mustOpen(t, disk.KillImage(1), "os").Logs()[0]
	if start := back.Ends().LogStart; start != 5 {
		t.Errorf("the log begins at %d", start)
	}
	holds(t, back, 7)
}

// Segments that a compaction is about to replace stay until then: a removal in between leaves them
// to the next run.
func TestNothingIsRemovedDuringASwap(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := kept(t, d, keeping("sync", -1, -1))
	putAt(t, l, 8, 700, ago(0))
	must(t, l.flushAndSync())
	m := StartMove{Log: l, To: 5}
	must(t, l.raiseStart(&m))
	l.applyEvent(loglife.SwapBegun, nil)
	postponeRepair(l) // there is no swap that a repair could finish
	l.applyEvent(loglife.SwapFailed, ErrFailed)
	if l.dropBelow(&m); len(l.segments) != 4 {
		t.Errorf("%d of 4 segments are left", len(l.segments))
	}
	if err := l.SetLogStart(6); err == nil {
		t.Error("the start moves meanwhile")
	}
	l.applyEvent(loglife.SwapDone, nil)
	if d.applyRetention(); len(l.segments) != 2 || l.startSynced.Load() != 5 {
		t.Errorf("%d segments are left, start %d", len(l.segments), l.startSynced.Load())
	}
	holds(t, l, 8)
}

// The records for which a segment was rolled are discarded before they reach it. Later records are
// written behind it, and the acknowledged ones are there after a kill.
func TestRecordsBehindADiscardedSegmentStay(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := kept(t, d, keeping("sync", -1, -1))
	putAt(t, l, 3, 100, ago(0))
	must(t, l.roll())
	putAt(t, l, 2, 100, ago(0)) // only in the journal
	must(t, l.SetLogStart(5))
	l.Configure(keeping("os", -1, -1))
	putAt(t, l, 4, 700, ago(0))
	back := mustOpen(t, disk.KillImage(1), "os").Logs()[0]
	if start := back.Ends().LogStart; start != 5 {
		t.Errorf("the log begins at %d", start)
	}
	holds(t, back, 9)
}

// Records were written when their segment was last modified, or when they were appended if they are
// in none.
func TestWhenRecordsWereWritten(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := kept(t, d, keeping("sync", hour, -1))
	putAt(t, l, 4, 700, -1) // two per segment
	must(t, l.flush())
	putAt(t, l, 1, 100, -1)
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i, name := range files(t, l, ".log") {
		must(t, disk.SetModified(path.Join(l.path, name), old.Add(time.Duration(i)*time.Minute)))
	}
	for end, want := range map[int64]time.Time{1: old, 2: old, 3: old.Add(time.Minute), 4: old.Add(time.Minute)} {
		if at, err := l.Written(end); err != nil || !at.Equal(want) {
			t.Errorf("below %d: %v, %v, want %v", end, at, err, want)
		}
	}
	if at, err := l.Written(5); err != nil || at.Before(old.Add(30*time.Minute)) {
		t.Errorf("below the end: %v, %v", at, err)
	}
}
