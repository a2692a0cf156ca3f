package storage

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Timestamps that are years ahead or negative do not keep records forever: the time of the last
// write counts instead, in segments and in memory, also after a start.
func TestFault17BrokenTimestamps(t *testing.T) {
	for name, ts := range map[string]int64{"ahead": 4_000_000_000_000, "as far ahead as can be": math.MaxInt64, "negative": -1} {
		for _, flushed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				disk := crashfs.New(1)
				slow := func(o *Options) { o.RetentionInterval = 1000 * time.Hour }
				d, err := openDir(disk, "sync", slow)
				must(t, err)
				l := kept(t, d, keeping("sync", hour, -1))
				putAt(t, l, 3, 700, ts)
				if flushed {
					_ = l.flushAndSync()
				}
				time.Sleep(59 * time.Minute)
				if d.applyRetention(); l.Ends().LogStart != 0 {
					t.Errorf("%s, in a segment: %v: gone before retention.ms has passed since they were written", name, flushed)
				}
				if flushed { // the file's modification time survives the process
					_ = d.Close()
					if d, err = openDir(disk, "sync", slow, func(o *Options) {
						o.Config = func(string, ID) Config { return keeping("sync", hour, -1) }
					}); err != nil {
						t.Fatal(err)
					}
					l = d.Logs()[0]
					l.Observe(idle{})
				}
				time.Sleep(2 * time.Minute)
				if d.applyRetention(); l.Ends().LogStart != 3 {
					t.Errorf("%s, in a segment: %v: still there: %+v", name, flushed, l.Retained())
				}
				_ = d.Close()
			})
		}
	}
}

// A segment whose timestamps do not show its age rolls after segment.ms of real time, so that its
// records can be removed although records keep coming.
func TestFault17TimestampsThatDontMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := openDir(crashfs.New(1), "sync", func(o *Options) { o.RetentionInterval = 10 * time.Minute })
		must(t, err)
		defer d.Close()
		cfg := keeping("sync", hour, -1)
		cfg.Segment.Bytes, cfg.Segment.Ms = 1<<20, hour/2
		l := kept(t, d, cfg)
		const ahead = 4_000_000_000_000
		for range 24 { // every 10 minutes
			putAt(t, l, 1, 100, ahead)
			_ = l.flush()
			time.Sleep(10 * time.Minute)
		}
		if start := l.Ends().LogStart; start < 12 || start > 18 {
			t.Errorf("after four hours the log of one hour begins at record %d of 24", start)
		}
	})
}

// A clock that goes back removes nothing early. Records accepted meanwhile are removed at their
// time.
func TestFault17ClockGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := openDir(crashfs.New(1), "sync", func(o *Options) { o.RetentionInterval = 1000 * time.Hour })
		must(t, err)
		defer d.Close()
		l := kept(t, d, keeping("sync", hour, -1))
		putAt(t, l, 2, 700, time.Now().Add(30*time.Minute).UnixMilli()) // by a clock that is set back by half an hour now
		putAt(t, l, 2, 700, time.Now().UnixMilli())
		_ = l.flush()
		time.Sleep(5 * time.Minute)
		for minutes := 5; minutes <= 120; minutes += 10 {
			d.applyRetention()
			want := int64(0)
			if minutes > 90 {
				want = 4
			}
			if start := l.Ends().LogStart; start != want {
				t.Fatalf("after %d minutes the log begins at %d, want %d: %+v", minutes, start, want, l.Retained())
			}
			time.Sleep(10 * time.Minute)
		}
	})
}

// A log whose timestamps cannot be read stays as it is and reports that; others are not affected.
func TestRetentionWithADamagedSegment(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	logs := []*Log{kept(t, d, keeping("sync", hour, -1))}
	other, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{2}}, Topic: "u", Config: keeping("sync", hour, -1)}})
	must(t, err)
	other[0].Observe(idle{})
	for _, l := range append(logs, other...) {
		putAt(t, l, 4, 700, ago(2*hour))
	}
	_ = d.Close()
	again := mustOpen(t, errs, "sync", func(o *Options) { o.Config = func(string, ID) Config { return keeping("sync", hour, -1) } })
	errs.Add(errfs.Rule{Ops: errfs.Open | errfs.Read, Path: "/d/t-0/*.log", Err: syscall.EIO})
	for _, l := range again.Logs() {
		l.Observe(idle{})
	}
	again.applyRetention()
	for _, l := range again.Logs() {
		if start := l.Ends().LogStart; l.topic == "t" && start != 0 || l.topic == "u" && start != 4 {
			t.Errorf("%s begins at %d: %+v", l, start, l.Retained())
		}
	}
	errs.Clear()
	if again.applyRetention(); again.Logs()[0].Ends().LogStart != 4 || again.Logs()[1].Ends().LogStart != 4 {
		t.Error("when it can be read again it stays as it is")
	}
}

// Without a checkpoint nothing is removed; the next run removes it.
func TestRetentionTriesAgain(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	l := kept(t, d, keeping("sync", hour, -1))
	putAt(t, l, 4, 700, ago(2*hour))
	_ = l.flush()
	putAt(t, l, 1, 700, ago(0))
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/checkpoint/*", Err: syscall.ENOSPC})
	d.applyRetention()
	if got := files(t, l, ".log"); len(got) != 2 || l.startSynced.Load() != 0 {
		t.Errorf("without a checkpoint: %v, start %d", got, l.startSynced.Load())
	}
	errs.Clear()
	d.applyRetention()
	if got := files(t, l, ".log"); len(got) != 1 || l.startSynced.Load() != 2 {
		t.Errorf("with one: %v, start %d", got, l.startSynced.Load())
	}
	holds(t, l, 5)
}

// A start that a client moved, or a leader, is made durable by the next run if its checkpoint
// failed. Until then the start of this log and that of its copies differ, and these cannot be in
// sync.
func TestRetentionCompletesAMovedStart(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	l := kept(t, d, keeping("sync", hour, -1))
	putAt(t, l, 4, 700, ago(0))
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/checkpoint/*", Err: syscall.ENOSPC})
	if err := l.SetLogStart(2); err == nil || l.Ends().LogStart != 2 || l.DurableStart() != 0 {
		t.Fatalf("without a checkpoint: %v, start %d, durable %d", err, l.Ends().LogStart, l.DurableStart())
	}
	errs.Clear()
	if d.applyRetention(); l.DurableStart() != 2 {
		t.Errorf("with one: durable start %d", l.DurableStart())
	}
}

// A start that has moved in memory, and whose checkpoint failed, is made durable later. A log that
// has begun again meanwhile stays as it is.
func TestAStartThatIsMadeDurableDoesNotMoveALogThatBeganAgain(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	l := kept(t, d, keeping("sync", hour, -1))
	putAt(t, l, 4, 700, ago(0))
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/checkpoint/*", Err: syscall.ENOSPC})
	if err := l.SetLogStart(2); err == nil || l.DurableStart() != 0 {
		t.Fatalf("without a checkpoint: %v, durable start %d", err, l.DurableStart())
	}
	errs.Clear()
	cut := []Truncation{{Log: l, End: 0, Reset: true}}
	if d.Truncate(cut); cut[0].Err != nil {
		t.Fatal(cut[0].Err)
	}
	putAt(t, l, 4, 700, ago(0))
	again := []StartMove{{Log: l, To: PresentStart}}
	if d.MoveStarts(again); again[0].Err != nil || l.Ends().LogStart != 0 {
		t.Errorf("%v, the log begins at %d", again[0].Err, l.Ends().LogStart)
	}
}

// Readers at all offsets of a log, writers, flushes and rolls run while its start moves repeatedly.
// A reader gets the requested records, or an error that they are gone.
func TestReadersDuringRetention(t *testing.T) {
	disk := vfs.Memory()
	d := mustOpen(t, disk, "sync", func(o *Options) { o.DeferredBytes = 8 << 10; o.OpenFiles = 4 })
	l := kept(t, d, keeping("sync", -1, 6<<10))
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := int64(0); !stop.Load(); n++ {
				e := l.Ends()
				at := e.LogStart + (n*7+int64(i))%max(e.Durable-e.LogStart, 1)
				s, err := l.Read(at, e.Durable, 3000, true)
				switch {
				case errors.Is(err, ErrOffsetOutOfRange):
					if at >= l.Ends().LogStart {
						t.Errorf("offset %d is out of range of %+v", at, l.Ends())
					}
				case err != nil:
					t.Errorf("read %d: %v", at, err)
				case s.Size == 0 && at < e.Durable && at >= l.Ends().LogStart:
					t.Errorf("nothing at %d of %+v", at, l.Ends())
				case s.Size > 0:
					if b, _, err := record.Next(s.Parts[0]); err != nil || b.CheckCRC() != nil || b.BaseOffset() > at ||
						b.LastOffset() < at {
						t.Errorf("at %d stands %d to %d: %v", at, b.BaseOffset(), b.LastOffset(), err)
					}
				}
				s.Release()
				_, _ = l.FindTime(n, e.Durable)
				_ = l.Retained()
			}
		})
	}
	wg.Go(func() {
		for !stop.Load() {
			_ = l.roll()
		}
	})
	wg.Go(func() {
		for !stop.Load() {
			d.applyRetention()
			_ = l.SetLogStart(l.Ends().Durable - 3)
		}
	})
	for range 150 {
		putAt(t, l, 1, 500, ago(0))
	}
	stop.Store(true)
	wg.Wait()
	if err := l.Err(); err != nil {
		t.Error(err)
	}
	holds(t, l, 150)
}

// A full disk keeps the log from writing its segment. Retention still removes its old records:
// nothing else would ever free space.
func TestRetentionAfterAFullDisk(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	l := kept(t, d, keeping("sync", -1, 2000))
	putAt(t, l, 8, 700, ago(0))
	_ = l.flushAndSync()
	errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Create, Path: "/d/t-0/*.log", Err: syscall.ENOSPC})
	putAt(t, l, 1, 700, ago(0))
	if err := l.flush(); err == nil || l.Err() == nil {
		t.Fatal("the disk is not full")
	}
	before := len(files(t, l, ".log"))
	d.applyRetention()
	if got := files(t, l, ".log"); len(got) >= before || l.Ends().LogStart < 4 {
		t.Errorf("%d of %d segments are left: %+v", len(got), before, l.Retained())
	}
	errs.Clear()
	eventually(t, "the log takes records", func() bool { return l.Err() == nil })
	putAt(t, l, 1, 700, ago(0))
	holds(t, l, 10)
}

// The sequence numbers of a producer whose records were removed before they reached a segment are
// known after a start: duplicates are recognized.
func TestProducersOutliveTheirRecords(t *testing.T) {
	if !knowsGoneProducers(t, broken{}) {
		t.Error("a batch that was sent again is not known")
	}
}

// knowsGoneProducers reports whether a start after a power loss knows a batch that was removed
// before it reached a segment.
func knowsGoneProducers(t *testing.T, b broken) bool {
	t.Helper()
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync", func(o *Options) { o.broken = b })
	l := kept(t, d, keeping("sync", hour, -1))
	again := testBatch(t, 100, &record.Producer{ID: 7, Sequence: 0}) // of 1970
	if a := send(l, testBatch(t, 100, &record.Producer{ID: 7, Sequence: 0})); a.Err != nil {
		t.Fatal(a.Err)
	}
	eventually(t, "it counts", func() bool { return l.AckEnd() == 1 })
	if d.applyRetention(); l.Ends().LogStart != 1 {
		t.Fatalf("%+v", l.Ends())
	}
	a := send(mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), "sync").Logs()[0], again)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	return a.Duplicate
}

// After a start the newest timestamp of a damaged segment is unknown. The segment is removed when
// retention.ms has passed since its last write, so that the segments behind it do not fill the
// disk.
func TestFault17DamageHoldsUpNoRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(1)
		options := func(o *Options) {
			o.RetentionInterval = 1000 * time.Hour
			o.Config = func(string, ID) Config { return keeping("sync", hour, -1) }
		}
		d, err := openDir(disk, "sync", options)
		must(t, err)
		l := kept(t, d, keeping("sync", hour, -1))
		putAt(t, l, 6, 700, ago(0)) // two per segment
		must(t, d.Close())
		change(t, disk, firstSegment, 8, []byte{0x7f})
		if d, err = openDir(disk, "sync", options); err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		l = d.Logs()[0]
		l.Observe(idle{})
		time.Sleep(59 * time.Minute)
		if d.applyRetention(); l.Ends().LogStart != 0 {
			t.Errorf("gone before retention.ms has passed since it was written: %+v", l.Ends())
		}
		time.Sleep(2 * time.Minute)
		if d.applyRetention(); l.Ends().LogStart != 6 {
			t.Errorf("the log starts at %d: %s", l.Ends().LogStart, l.Retained())
		}
	})
}
