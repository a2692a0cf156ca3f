package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// compacted returns the configuration of a log with small segments that is compacted whenever
// anything is dirty.
func compacted(profile string) Config {
	c := testConfig(profile)
	c.Segment.Bytes, c.Segment.IndexInterval = 2<<10, 256
	c.Cleanup = Cleanup{Compact: true, Tombstones: time.Hour}
	return c
}

func compactLog(t testing.TB, fsys vfs.FS, profile string, change ...func(*Options)) (*Dir, *Log) {
	t.Helper()
	d := mustOpen(t, fsys, profile, append(change, func(o *Options) {
		o.Config = func(string, ID) Config { return compacted(profile) }
	})...)
	if logs := d.Logs(); len(logs) > 0 {
		logs[0].Observe(idle{})
		return d, logs[0]
	}
	logs, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{1}}, Topic: "t", Config: compacted(profile)}})
	must(t, err)
	logs[0].Observe(idle{})
	return d, logs[0]
}

// keyed returns a batch of one record; a nil value makes a tombstone.
func keyed(t testing.TB, key, value string, p *record.Producer) []byte {
	t.Helper()
	w := record.NewBuilder(record.BatchOptions{Producer: p})
	var v []byte
	if value != "" {
		v = []byte(value)
	}
	w.Append(time.Now().UnixMilli(), []byte(key), v, nil)
	b, err := w.Build()
	must(t, err)
	return b
}

// set writes the keys 0 to n-1 with values that end in a suffix, and waits until all records are in
// durable segments.
func set(t testing.TB, l *Log, n int, suffix string) {
	t.Helper()
	for i := range n {
		if a := send(l, keyed(t, fmt.Sprint("key ", i), strings.Repeat("v", 50)+suffix, nil)); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	flushedAndSynced(t, l)
}

func flushedAndSynced(t testing.TB, l *Log) {
	t.Helper()
	synced(t, l)
	must(t, l.flushAndSync())
	must(t, l.roll())
}

// state reads the log from its start. It returns the last value of each key and the number of
// records.
func state(t testing.TB, l *Log) (m map[string]string, records int) {
	t.Helper()
	m = map[string]string{}
	for at := l.Ends().LogStart; ; {
		end := l.Ends().Durable
		s, err := l.Read(at, end, 3000, true)
		if err != nil {
			t.Fatalf("read %s at %d: %v", l, at, err)
		}
		if s.Size == 0 && end == l.Ends().Durable { // otherwise later writes may have replaced all remaining records
			return m, records
		}
		for _, p := range s.Parts {
			eachBatch(p, func(b record.Batch) {
				if b.LastOffset() < at {
					t.Fatalf("%s: the batch at %d comes after %d", l, b.BaseOffset(), at)
				}
				at = b.LastOffset() + 1
				must(t, b.Each(record.Limits{}, func(r record.Record) error {
					records++
					if delete(m, string(r.Key)); r.Value != nil {
						m[string(r.Key)] = string(r.Value)
					}
					return nil
				}))
			})
		}
		s.Release()
	}
}

// compactAll compacts until nothing is due.
func compactAll(t testing.TB, d *Dir) (passes int) {
	t.Helper()
	for d.compactNext() {
		if passes++; passes > 100 {
			t.Fatal("compaction doesn't come to an end")
		}
	}
	return passes
}

// TestCompactionKeepsTheLastValues checks that every key keeps its last value in fewer segments,
// across restarts and kills.
func TestCompactionKeepsTheLastValues(t *testing.T) {
	for _, profile := range []string{"sync", "os"} {
		disk := crashfs.New(1)
		d, l := compactLog(t, disk, profile)
		for _, suffix := range []string{"a", "b", "c"} {
			set(t, l, 50, suffix)
		}
		want, before := state(t, l)
		size, segments := l.Size(), len(files(t, l, ".log"))
		if n := compactAll(t, d); n != 1 {
			t.Fatalf("%s: %d passes", profile, n)
		}
		check := func(when string, l *Log) {
			t.Helper()
			got, after := state(t, l)
			if !maps.Equal(want, got) || after != 50 || before != 150 {
				t.Errorf("%s, %s: %d records became %d", profile, when, before, after)
			}
			if n := len(files(t, l, ".log")); n >= segments || l.Size() > size/2 {
				t.Errorf("%s, %s: %d segments of %d bytes became %d of %d", profile, when, segments, size, n, l.Size())
			}
			if rest := append(files(t, l, segment.SwapSuffix), files(t, l, segment.CleanedSuffix)...); len(rest) > 0 {
				t.Errorf("%s, %s: %v are left", profile, when, rest)
			}
		}
		check("afterwards", l)
		killed := disk.KillImage(1)
		must(t, d.Close())
		for when, image := range map[string]*crashfs.FS{"after a kill": killed, "after a stop": disk.KillImage(2)} {
			d, l := compactLog(t, image, profile)
			check(when, l)
			if n := compactAll(t, d); when == "after a stop" && n > 0 {
				t.Errorf("%s, %s: %d passes over what is clean", profile, when, n)
			}
			check(when+" and a compaction", l)
		}
	}
}

// TestCompactionKeepsTheAge checks that a compacted segment is as old as the youngest of its
// sources.
func TestCompactionKeepsTheAge(t *testing.T) {
	disk := vfs.Memory()
	d, l := compactLog(t, disk, "sync")
	set(t, l, 100, "a")
	set(t, l, 50, "b") // half of the first records stay
	old := time.Now().Add(-100 * time.Hour)
	before := slices.Clone(l.segments)
	for i, s := range before {
		must(t, disk.SetModified(s.Path(), old.Add(time.Duration(i)*time.Second)))
	}
	if n := compactAll(t, d); n != 1 {
		t.Fatalf("%d passes", n)
	}
	fresh := slices.DeleteFunc(slices.Clone(l.segments), func(s *segment.Segment) bool { return slices.Contains(before, s) })
	if len(fresh) == 0 {
		t.Fatal("no segment was written anew")
	}
	for _, s := range fresh {
		if at, err := s.Written(); err != nil || at.Before(old) || at.After(old.Add(time.Hour)) {
			t.Errorf("segment %d counts as written at %v, its records were at %v, %v", s.Base(), at, old, err)
		}
	}
}

func TestNoCompactionWithoutDiskSpace(t *testing.T) {
	d, l := compactLog(t, vfs.Memory(), "sync")
	for _, suffix := range []string{"a", "b", "c"} {
		set(t, l, 50, suffix)
	}
	d.guard.last.Store(&Space{Level: diskguard.Critical})
	if n := compactAll(t, d); n != 0 {
		t.Errorf("%d passes on a disk that is nearly full", n)
	}
	d.guard.last.Store(&Space{Level: diskguard.Low})
	if n := compactAll(t, d); n != 1 {
		t.Errorf("%d passes where there is room", n)
	}
}

// TestTombstonesStayTheirTime checks that a tombstone is removed by the first pass after its time.
func TestTombstonesStayTheirTime(t *testing.T) {
	d, l := compactLog(t, vfs.Memory(), "sync")
	tombstones := func() (n int) {
		_ = guard(func() error {
			for _, b := range (&world{rng: newRandom(1)}).content(l) {
				_ = record.Batch(b.data).Each(record.Limits{}, func(r record.Record) error {
					if r.Value == nil {
						n++
					}
					return nil
				})
			}
			return nil
		})
		return n
	}
	set(t, l, 10, "a")
	send(l, keyed(t, "key 3", "", nil))
	send(l, keyed(t, "key 4", "", nil))
	set(t, l, 1, "b")
	compactAll(t, d)
	if want, _ := state(t, l); tombstones() != 2 || len(want) != 8 {
		t.Fatalf("%d tombstones, %v", tombstones(), want)
	}
	set(t, l, 1, "c")
	compactAll(t, d)
	if tombstones() != 2 {
		t.Errorf("%d tombstones after a second pass", tombstones())
	}
	// An hour has passed: the delete horizon in the batches counts.
	p := &pass{d: d, l: l, now: time.Now().Add(time.Hour + time.Second)}
	set(t, l, 1, "d")
	var err error
	if p.dirt, err = l.measureDirt(p.now); err != nil {
		t.Fatal(err)
	}
	must(t, p.run())
	if want, _ := state(t, l); tombstones() != 0 || len(want) != 8 {
		t.Errorf("%d tombstones, %v", tombstones(), want)
	}
}

// TestCompactionWithASmallMap checks that several passes have the same result as one.
func TestCompactionWithASmallMap(t *testing.T) {
	d, l := compactLog(t, vfs.Memory(), "sync", func(o *Options) { o.Cleaning.KeyBytes = 1 })
	for _, suffix := range []string{"a", "b"} {
		set(t, l, 600, suffix)
	}
	want, _ := state(t, l)
	if n := compactAll(t, d); n < 2 {
		t.Errorf("%d passes", n)
	}
	if got, n := state(t, l); !maps.Equal(want, got) || n >= 1200 {
		t.Errorf("%d records are left", n)
	}
}

// TestCompactionKeepsProducers checks that the last batch of a producer stays, so that its retry is
// recognized even if the state is read from the segments.
func TestCompactionKeepsProducers(t *testing.T) {
	d, l := compactLog(t, vfs.Memory(), "sync")
	last := keyed(t, "key 1", "old", &record.Producer{ID: 9, Sequence: 1})
	first := send(l, keyed(t, "key 0", "old", &record.Producer{ID: 9, Sequence: 0}))
	at := send(l, bytes.Clone(last))
	if first.Err != nil || at.Err != nil {
		t.Fatal(first.Err, at.Err)
	}
	set(t, l, 40, "new")
	set(t, l, 40, "newer")
	compactAll(t, d)
	end := l.Ends().LogEnd
	set(t, l, 1, "cut")
	if err := l.Truncate(end); err != nil { // reads the producers from the segments
		t.Fatal(err)
	}
	if a := send(l, bytes.Clone(last)); a.Err != nil || !a.Duplicate || a.Base != at.Base {
		t.Errorf("a retry: %+v, %v", a.Base, a.Err)
	}
	if a := send(l, keyed(t, "key 0", "x", &record.Producer{ID: 9, Sequence: 5})); !errors.Is(a.Err, ErrOutOfOrderSequence) {
		t.Errorf("a gap in the sequence: %v", a.Err)
	}
	s, err := l.Read(at.Base, end, 1, true)
	defer s.Release()
	if err != nil || s.Size == 0 {
		t.Fatal(s.Size, err)
	}
	if b, _, err := record.Next(s.Parts[0]); err != nil || b.Records() != 0 || b.LastOffset() != at.Base {
		t.Errorf("a batch of %d records at %d: %v", b.Records(), b.BaseOffset(), err)
	}
	if ts, err := l.MaxTime(end); err != nil || ts.Offset < 0 {
		t.Errorf("the largest timestamp: %+v, %v", ts, err)
	}
	if ts, err := l.FindTime(0, end); err != nil || ts.Offset < 0 {
		t.Errorf("the first record: %+v, %v", ts, err)
	}
}

// TestCompactionStaysBelowItsBounds checks that a pass does not touch the active segment, records
// that are not durable, and records above the high watermark.
func TestCompactionStaysBelowItsBounds(t *testing.T) {
	d, l := compactLog(t, vfs.Memory(), "sync")
	l.Observe(bounded{})
	set(t, l, 100, "a")
	set(t, l, 100, "b")
	if d.compactNext() {
		t.Fatal("nothing was below the high watermark")
	}
	l.Observe(bounded{high: 100})
	compactAll(t, d)
	if got, n := state(t, l); n != 200 || len(got) != 100 {
		t.Errorf("%d records", n)
	}
	l.Observe(bounded{high: 200})
	c := l.Config()
	c.Cleanup.MinLag = time.Hour
	l.Configure(c)
	compactAll(t, d)
	if _, n := state(t, l); n != 200 {
		t.Errorf("%d records, though all are young", n)
	}
	c.Cleanup.MinLag = 0
	l.Configure(c)
	compactAll(t, d)
	if _, n := state(t, l); n != 100 {
		t.Errorf("%d records", n)
	}
}

// cutCompacted compacts a log of 50 keys with two values each, truncates it, and returns what is
// wrong about its Flaw, now and after a kill.
func cutCompacted(t *testing.T, end int64, flawed bool, b broken) string {
	t.Helper()
	disk := crashfs.New(1)
	change := func(o *Options) { o.broken = b }
	d, l := compactLog(t, disk, "sync", change)
	set(t, l, 50, "a")
	set(t, l, 50, "b")
	if n := compactAll(t, d); n != 1 {
		t.Fatalf("%d passes", n)
	}
	cuts := []Truncation{{Log: l, End: end}}
	if d.Truncate(cuts); cuts[0].Err != nil {
		t.Fatal(cuts[0].Err)
	}
	if (l.Flaw() != nil) != flawed || (len(d.Flawed()) == 1) != flawed {
		return fmt.Sprintf("truncated to %d: %v, %v", end, l.Flaw(), d.Flawed())
	}
	d, l = compactLog(t, disk.KillImage(1), "sync", change)
	if (l.Flaw() != nil) != flawed || (len(d.Flawed()) == 1) != flawed {
		return fmt.Sprintf("truncated to %d and killed: %v, %v", end, l.Flaw(), d.Flawed())
	}
	cuts = []Truncation{{Log: l, End: 0}}
	if d.Truncate(cuts); cuts[0].Err != nil || l.Flaw() != nil {
		return fmt.Sprintf("emptied: %v, %v", cuts[0].Err, l.Flaw())
	}
	set(t, l, 50, "c")
	return ""
}

// A log that loses records because of which its compaction removed others lacks what other replicas
// may have.
func TestATruncatedCompactionIsAFlaw(t *testing.T) {
	for end, flawed := range map[int64]bool{100: false, 99: true, 60: true, 10: true, 0: false} {
		if wrong := cutCompacted(t, end, flawed, broken{}); wrong != "" {
			t.Error(wrong)
		}
	}
}

// A compacted log may have been copied without its removed records, so that it compacted nothing
// itself. It is not whole either if it is truncated below what was committed.
func TestATruncatedCopyOfACompactionIsAFlaw(t *testing.T) {
	for _, compact := range []bool{true, false} {
		d, l := compactLog(t, vfs.Memory(), "sync", func(o *Options) { o.Cleaning.Backoff = 1 << 60 })
		conf := compacted("sync")
		conf.Cleanup.Compact = compact
		l.cfg.Store(&conf)
		set(t, l, 50, "a")
		l.Rely(40)
		cuts := []Truncation{{Log: l, End: 30}}
		if d.Truncate(cuts); cuts[0].Err != nil {
			t.Fatal(cuts[0].Err)
		}
		if (l.Flaw() != nil) != compact {
			t.Errorf("compacted: %t, flaw: %v", compact, l.Flaw())
		}
	}
}

// TestReadersDuringSwaps checks that readers see every remaining batch in order, and the last
// values, while segments are replaced.
func TestReadersDuringSwaps(t *testing.T) {
	d, l := compactLog(t, vfs.Memory(), "sync", func(o *Options) { o.OpenFiles, o.DeferredBytes = 4, 32<<10 })
	set(t, l, 60, "first")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if m, _ := state(t, l); len(m) != 60 {
					t.Errorf("%d keys", len(m))
					return
				}
				end := l.Ends().Durable
				newest, err := l.MaxTime(end)
				first, err2 := l.FindTime(1, end)
				if err != nil || err2 != nil || (newest.Offset < 0 || first.Offset < 0) && end == l.Ends().Durable {
					t.Errorf("the largest timestamp: %+v, %v; the first record: %+v, %v", newest, err, first, err2)
				}
			}
		})
	}
	for i := range 12 {
		set(t, l, 60, fmt.Sprint(i))
		compactAll(t, d)
	}
	close(stop)
	wg.Wait()
	if _, n := state(t, l); n != 60 {
		t.Errorf("%d records are left", n)
	}
}

// TestAFailedSwapIsFinished checks that after a failure at any step the log is unchanged or accepts
// appends again without help, and that a start finds the same.
func TestAFailedSwapIsFinished(t *testing.T) {
	for name, rule := range map[string]errfs.Rule{
		"the new segment":       {Ops: errfs.Create, Path: "*.cleaned"},
		"its bytes":             {Ops: errfs.Write, Path: "*.cleaned"},
		"a full disk":           {Ops: errfs.Write, Path: "*.cleaned", Err: syscall.ENOSPC},
		"its sync":              {Ops: errfs.Datasync, Path: "*.cleaned"},
		"its name":              {Ops: errfs.Rename, Path: "*.cleaned"},
		"its place":             {Ops: errfs.Rename, Path: "*.swap"},
		"a removal":             {Ops: errfs.Remove, Path: "/d/*-*/*.log", From: 1},
		"the indexes":           {Ops: errfs.Remove, Path: "*index"},
		"the names":             {Ops: errfs.SyncDir, Path: "/d/t-0"},
		"the names, later":      {Ops: errfs.SyncDir, Path: "/d/t-0", From: 1},
		"the checkpoint":        {Ops: errfs.Datasync, Path: "/d/checkpoint/*"},
		"the second checkpoint": {Ops: errfs.Datasync, Path: "/d/checkpoint/*", From: 1},
		"its rename":            {Ops: errfs.Rename, Path: "/d/checkpoint/*"},
		"what is read":          {Ops: errfs.Read, Path: "/d/*-*/*.log", From: 3},
	} {
		t.Run(name, func(t *testing.T) {
			disk := crashfs.New(1)
			fs := errfs.New(disk)
			d, l := compactLog(t, fs, "sync")
			set(t, l, 100, "a")
			set(t, l, 100, "b")
			want, _ := state(t, l)
			if rule.Err == nil {
				rule.Err = syscall.EIO
			}
			rule.Count = 2
			fs.Add(rule)
			d.compactNext()
			if rule.Ops == errfs.Read {
				fs.Clear()
			}
			if got, _ := state(t, l); !maps.Equal(want, got) {
				t.Error("a reader sees other values")
			}
			crashed := disk.PowerLossImage(crashfs.KeepSectors, 1)
			eventually(t, "the log takes records", func() bool { return l.Err() == nil })
			fs.Clear()
			l.attempts.retry = time.Time{}
			set(t, l, 1, "b")
			compactAll(t, d)
			if got, n := state(t, l); !maps.Equal(want, got) || n > 101 {
				t.Errorf("%d records are left", n)
			}
			if rest := append(files(t, l, segment.SwapSuffix), files(t, l, segment.CleanedSuffix)...); len(rest) > 0 {
				t.Errorf("%v are left", rest)
			}
			_, l2 := compactLog(t, crashed, "sync")
			if got, _ := state(t, l2); !maps.Equal(want, got) {
				t.Error("a start after a loss of power sees other values")
			}
		})
	}
}

// TestDamageStopsOneLogOnly checks that damage is counted and other logs are compacted.
func TestDamageStopsOneLogOnly(t *testing.T) {
	fs := vfs.Memory()
	d, l := compactLog(t, fs, "sync")
	other, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{1}, Partition: 1}, Topic: "t", Config: compacted("sync")}})
	must(t, err)
	for _, x := range []*Log{l, other[0]} {
		x.Observe(idle{})
		set(t, x, 60, "a")
		set(t, x, 60, "b")
	}
	f, err := fs.Open(path.Join(l.path, segment.Name(0)+segment.LogSuffix))
	must(t, err)
	if _, err := f.WriteAt([]byte{0xff}, 200); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	compactAll(t, d)
	if _, n := state(t, other[0]); n != 60 {
		t.Errorf("%d records of the other log are left", n)
	}
	if l.attempts.failures != 1 || !l.attempts.retry.After(time.Now()) || l.Err() != nil {
		t.Errorf("%+v, %v", l.attempts, l.Err())
	}
	if damages := l.Damages(); len(damages) != 1 || damages[0].From != 1 || damages[0].Next != 2 {
		t.Errorf("damages: %v", damages)
	}
	if rest := files(t, l, segment.CleanedSuffix); len(rest) > 0 {
		t.Errorf("%v are left", rest)
	}
}

// A change of the compaction settings applies at once, not only after the pause that the old
// settings define.
func TestSettingsOfCompactionChangeAtOnce(t *testing.T) {
	d, l := compactLog(t, vfs.Memory(), "sync", func(o *Options) { o.Cleaning.Backoff, o.Cleaning.BytesPerSecond = time.Hour, 1 })
	set(t, l, 100, "a")
	set(t, l, 100, "b")
	m := newManager()
	m.dirs = []*Dir{d}
	m.failed = []*DirError{{}} // its share is reserved for a start that can open it
	m.SetCleaning(Cleaning{Backoff: time.Millisecond, KeyBytes: 4 << 20})
	if got, want := *d.cleaning.Load(), (Cleaning{time.Millisecond, 2 << 20, 0, 7 * 24 * time.Hour}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	eventually(t, "the log is compacted", func() bool { return testutil.ToFloat64(d.stats.cleaner.passes) > 0 })
}

// TestCompactionEndsWithTheDirectory checks that a throttled pass does not delay Close.
func TestCompactionEndsWithTheDirectory(t *testing.T) {
	d, l := compactLog(t, vfs.Memory(), "sync", func(o *Options) { o.Cleaning.BytesPerSecond = 1 })
	set(t, l, 100, "a")
	set(t, l, 100, "b")
	done := make(chan struct{})
	go func() { defer close(done); d.compactNext() }()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	<-done
}

// TestReadsBeforeAnEmptyBatch checks that a reader in the gap before an empty batch continues
// behind it.
func TestReadsBeforeAnEmptyBatch(t *testing.T) {
	d, l := compactLog(t, vfs.Memory(), "sync")
	for range 3 {
		send(l, testBatch(t, 10, nil)) // without keys: nothing stays of them
	}
	flushedAndSynced(t, l)
	compactAll(t, d)
	for at := range int64(3) {
		s, err := l.Read(at, 3, 1000, true)
		if err != nil || s.Size != record.HeaderSize || record.Batch(s.Parts[0]).LastOffset() != 2 {
			t.Errorf("at %d: %d bytes, %v", at, s.Size, err)
		}
		s.Release()
	}
}

// A pass reads and writes no more bytes per second than the setting permits.
func TestAPassHasItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dir{quit: make(chan struct{}), pace: pause.Pace{Idle: paceIdle}}
		l := &Log{dir: d}
		l.cfg.Store(&Config{Cleanup: Cleanup{Compact: true}})
		l.life.state = loglife.Online
		p := &pass{d: d, l: l}
		d.life.Store(&dirLife{})
		d.guard.last.Store(&Space{})
		d.cleaning.Store(&Cleaning{BytesPerSecond: 1000})
		began := time.Now()
		for range 5 {
			must(t, p.step(1000))
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("5,000 bytes at 1,000 bytes/s took %v", took)
		}
	})
}
