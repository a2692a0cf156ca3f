package storage

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

const firstSegment = "/d/t-0/00000000000000000000.log"

// served returns the disk of two logs with 20 records each in synced segments, after the process
// was killed.
func served(t *testing.T, profile string) *crashfs.FS {
	t.Helper()
	disk := crashfs.New(1)
	d := mustOpen(t, disk, profile)
	for _, l := range makeLogs(t, d, 2, profile) {
		put(t, l, 20, 1000)
		must(t, l.flushAndSync())
	}
	must(t, d.checkpoint(nil))
	return disk.KillImage(1)
}

// change overwrites a part of a file.
func change(t *testing.T, fsys vfs.FS, name string, off int64, p []byte) {
	t.Helper()
	f, err := fsys.Open(name)
	if err == nil {
		_, err = f.WriteAt(p, off)
	}
	if err == nil {
		err = f.Close()
	}
	must(t, err)
}

func byPartition(t testing.TB, d *Dir, p int32) *Log {
	t.Helper()
	for _, l := range d.Logs() {
		if l.id.Partition == p {
			return l
		}
	}
	t.Fatalf("partition %d is gone", p)
	return nil
}

// Anything behind the last whole batch is cut.
func TestFault06TornAndForeignTails(t *testing.T) {
	for _, profile := range []string{"sync", "os"} {
		image := served(t, profile)
		size := int64(len(readFile(t, image, firstSegment)))
		whole := readFile(t, image, firstSegment)[:300]
		for name, tail := range map[string][]byte{"torn batch": whole, "zeros": make([]byte, 4096),
			"garbage": []byte("no batch at all, and then some more of it to have a header's length ........")} {
			next := image.KillImage(2)
			change(t, next, firstSegment, size, tail)
			d := mustOpen(t, next, profile)
			if d.Logs()[0].Err() != nil {
				t.Errorf("%s, %s: %v", profile, name, d.Logs()[0].Err())
			}
			l := byPartition(t, d, 0)
			holds(t, l, 20)
			put(t, l, 2, 100)
			holds(t, l, 22)
		}
	}
}

// Indexes are caches: whatever their content, reads are correct.
func TestFault06DamagedIndexes(t *testing.T) {
	image := served(t, "sync")
	index := "/d/t-0/00000000000000000000.index"
	for name, damage := range map[string]func(fsys *crashfs.FS){
		"missing":       func(fsys *crashfs.FS) { _ = fsys.Remove(index) },
		"past the end":  func(fsys *crashfs.FS) { change(t, fsys, index, 0, []byte{0, 0, 0, 3, 0x7f, 0, 0, 0}) },
		"wrong batch":   func(fsys *crashfs.FS) { change(t, fsys, index, 0, []byte{0, 0, 0, 1, 0, 0, 0x10, 1}) },
		"half an entry": func(fsys *crashfs.FS) { change(t, fsys, index, int64(len(readFile(t, fsys, index))), []byte{1, 2, 3}) },
	} {
		next := image.KillImage(3)
		damage(next)
		d := mustOpen(t, next, "sync")
		l := byPartition(t, d, 0)
		holds(t, l, 20)
		put(t, l, 1, 100)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// A partition whose segment is missing or too short is taken offline and listed, the others work,
// and the next start does the same.
func TestFault08MissingSegmentIsReported(t *testing.T) {
	for _, cut := range []bool{false, true} {
		image := served(t, "sync")
		if cut {
			f, err := image.Open(firstSegment)
			if err == nil {
				err = f.Truncate(5000)
			}
			must(t, err)
		} else if err := image.Remove(firstSegment); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			d := mustOpen(t, image, "sync")
			if err := byPartition(t, d, 0).Offline(); !errors.Is(err, ErrFailed) {
				t.Errorf("partition 0: %v", err)
			}
			if a := send(byPartition(t, d, 0), testBatch(t, 10, nil)); !errors.Is(a.Err, ErrFailed) {
				t.Errorf("append to a partition that is offline: %v", a.Err)
			}
			holds(t, byPartition(t, d, 1), 20)
			must(t, d.Close())
		}
	}
}

// A read from disk meets a flipped bit that recovery did not scan. Its batch is never returned, the
// partition is marked, the damage is logged once, and everything else is served.
func TestFault07FlippedBitIsMetOnReading(t *testing.T) {
	image := served(t, "sync")
	b := readFile(t, image, firstSegment)
	change(t, image, firstSegment, 5500, []byte{b[5500] ^ 4})
	core, said := observer.New(zap.ErrorLevel)
	d := mustOpen(t, image, "sync", func(o *Options) { o.Logger = zap.New(core) })
	l := byPartition(t, d, 0)
	if err := l.Damaged(); err != nil {
		t.Errorf("marked before a read: %v", err)
	}
	if logs := d.Flawed(); len(logs) > 0 {
		t.Errorf("%v are damaged before a read", logs)
	}
	for range 3 {
		bad := 0
		for at := range int64(20) {
			s, err := l.Read(at, 20, 1, true)
			if errors.Is(err, ErrCorrupt) {
				bad++
			} else if err != nil || s.Size == 0 {
				t.Errorf("read at %d: %d bytes, %v", at, s.Size, err)
			}
			s.Release()
		}
		if bad != 1 {
			t.Errorf("%d reads met the damage, want 1", bad)
		}
	}
	if err := l.Damaged(); !errors.Is(err, ErrCorrupt) || l.Offline() != nil || l.Err() != nil {
		t.Errorf("marked with %v, offline %v", err, l.Offline())
	}
	if logs := d.Flawed(); len(logs) != 1 || logs[0] != l {
		t.Errorf("%v are damaged, want %v", logs, l)
	}
	lines := said.FilterMessageSnippet("damaged").All()
	if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()), firstSegment) {
		t.Errorf("said %d times: %v", len(lines), lines)
	}
	put(t, l, 2, 100)
	if other := byPartition(t, d, 1); other.Damaged() != nil {
		t.Error("the other partition is marked")
	}
	holds(t, byPartition(t, d, 1), 20)
}

// Damage in the journal below the known durable LSN is never taken for its end.
func TestFault07DamagedJournalIsReported(t *testing.T) {
	image, name := damagedJournal(t)
	refused(t, image, journal.ErrDamaged, name)
}

// damagedJournal returns a directory with three records in its journal, the first of which is
// damaged, and the name of the file.
func damagedJournal(t *testing.T) (image *crashfs.FS, name string) {
	t.Helper()
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 1, 1000)
	put(t, l, 1, 1000)
	put(t, l, 1, 1000)
	image = disk.KillImage(1)
	infos, err := image.List("/d/journal")
	must(t, err)
	change(t, image, "/d/journal/"+infos[0].Name, 8192+300, []byte{0xff, 0xfe})
	return image, infos[0].Name
}

// Short writes and a lack of file descriptors are handled like other errors.
func TestFault05ShortWriteAndNoDescriptors(t *testing.T) {
	for name, rule := range map[string]errfs.Rule{
		"short journal write": {Ops: errfs.Write, Count: 1, Short: 700, Err: syscall.EIO},
		"short segment write": {Ops: errfs.Write, Path: "/d/*-*/*.log", Count: 1, Short: 700, Err: syscall.EIO},
		"interrupted":         {Ops: errfs.Datasync, Path: "/d/*-*/*.log", Count: 1, Err: syscall.EINTR},
		"no descriptors":      {Ops: errfs.Open | errfs.Create, Path: "/d/*-*/*.log", Count: 3, Err: syscall.EMFILE},
	} {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		var reopened atomic.Int32
		d := mustOpen(t, errs, "sync", countReopened(&reopened))
		l := makeLogs(t, d, 1, "sync")[0]
		put(t, l, 5, 1000)
		journal := rule.Path == ""
		if journal {
			rule = inJournal(d, rule)
		}
		f := errs.Add(rule)
		for f.Hits() == 0 {
			_ = send(l, testBatch(t, 1000, nil))
			_ = l.flushAndSync()
		}
		end := l.Ends().Durable
		eventually(t, name+": the log takes records again", func() bool {
			return l.Err() == nil && d.Err() == nil && (!journal || reopened.Load() > 0)
		})
		if e := l.Ends(); e.Durable < end {
			t.Errorf("%s: durable up to %d, now %+v", name, end, e)
		}
		put(t, l, 2, 100)
		holds(t, l, l.Ends().LogEnd)
		again := mustOpen(t, disk.PowerLossImage(crashfs.KeepSectors, 1), "sync")
		holds(t, again.Logs()[0], l.Ends().Durable)
	}
}

// A partition that is offline is counted until it is deleted.
func TestOfflinePartitionsAreCounted(t *testing.T) {
	image := served(t, "sync")
	must(t, image.Remove(firstSegment))
	m := metrics.NewStorage(nil)
	d := mustOpen(t, image, "sync", func(o *Options) { o.Metrics = m })
	offline := func() float64 { return testutil.ToFloat64(m.Offline.WithLabelValues("/d")) }
	if n := offline(); n != 1 {
		t.Errorf("%v partitions are offline", n)
	}
	for range 2 {
		must(t, d.Delete(d.Logs()...))
		if n := offline(); n != 0 {
			t.Errorf("%v partitions are offline, and all are deleted", n)
		}
	}
}
