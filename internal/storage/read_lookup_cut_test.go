package storage

import (
	"sync/atomic"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// stampedBatch returns a batch of one record with a timestamp.
func stampedBatch(t testing.TB, ts int64, size int) []byte {
	b := record.NewBuilder(record.BatchOptions{})
	b.Append(ts, nil, make([]byte, size), nil)
	data, err := b.Build()
	must(t, err)
	return data
}

// putStamps appends batches of one record with these timestamps.
func putStamps(t testing.TB, l *Log, size int, stamps ...int64) {
	t.Helper()
	for _, ts := range stamps {
		if a := send(l, stampedBatch(t, ts, size)); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	synced(t, l)
}

// Records that are truncated during a lookup are no damage.
func TestALookupByTimeDuringATruncation(t *testing.T) {
	for n := 1; n < 6; n++ {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		d := mustOpen(t, errs, "sync")
		l := makeLogs(t, d, 1, "sync")[0]
		for i := range int64(6) {
			putStamps(t, l, 1000, 1000*(i+1))
		}
		must(t, l.flushAndSync())
		d.memory.evictCached(d.Logs())
		var reads atomic.Int32
		errs.Add(errfs.Rule{Ops: errfs.Read, Path: "/d/t-0/*.log", Before: func(errfs.Call) {
			if int(reads.Add(1)) == n {
				if err := l.Truncate(2); err != nil {
					t.Error(err)
				}
				putStamps(t, l, 3000, 10_000, 11_000, 12_000)
				if err := l.flushAndSync(); err != nil {
					t.Error(err)
				}
			}
		}})
		got, err := l.FindTime(5500, l.Ends().LogEnd)
		errs.Clear()
		if err != nil || l.Damaged() != nil {
			t.Errorf("read %d: %+v %v, damaged: %v", n, got, err, l.Damaged())
		}
	}
}

// The record with the largest timestamp may be removed during the search; then another one has it.
func TestMaxTimeDuringADeletionOfRecords(t *testing.T) {
	for _, whole := range []bool{false, true} {
		for n := 1; n < 5; n++ {
			disk := crashfs.New(1)
			errs := errfs.New(disk)
			d := mustOpen(t, errs, "sync")
			l := makeLogs(t, d, 1, "sync")[0]
			putStamps(t, l, 100, 9000, 2000)
			if whole {
				must(t, l.roll())
			}
			putStamps(t, l, 100, 3000, 4000)
			must(t, l.flushAndSync())
			d.memory.evictCached(d.Logs())
			var reads atomic.Int32
			errs.Add(errfs.Rule{Ops: errfs.Read, Path: "/d/t-0/*.log", Before: func(errfs.Call) {
				if int(reads.Add(1)) == n {
					if err := l.SetLogStart(2); err != nil {
						t.Error(err)
					}
				}
			}})
			got, err := l.MaxTime(4)
			if err != nil || got.Offset < 0 {
				t.Errorf("whole segment %v, read %d: %+v %v", whole, n, got, err)
			}
		}
	}
}

// An index has no timestamps of batches that were truncated, even after two crashes: the first
// start writes the batches, the second one reads the index files.
func TestIndexesDoNotOutliveATruncation(t *testing.T) {
	disk := crashfs.New(1)
	big := func(o *Options) { o.JournalFileSize, o.JournalBytes = 4<<20, 16<<20 }
	d := mustOpen(t, disk, "sync", big)
	l := makeLogs(t, d, 1, "sync")[0]
	putStamps(t, l, 5000, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009)
	if err := l.roll(); err != nil { // saves indexes
		t.Fatal(err)
	}
	must(t, l.Truncate(3))
	putStamps(t, l, 5000, 1003, 5000, 1005, 1006, 1007, 1008, 1009)
	image := disk.KillImage(1)
	byPartition(t, mustOpen(t, image, "sync", big), 0)
	image = image.KillImage(2)
	again := byPartition(t, mustOpen(t, image, "sync", big), 0)
	holds(t, again, 10)
	got, err := again.FindTime(2000, 10)
	if got.Offset != 4 {
		t.Errorf("the first record of 2000 or later is at 4, not at %+v %v", got, err)
	}
	mx, err := again.MaxTime(10)
	if mx.Offset != 4 {
		t.Errorf("max %+v %v", mx, err)
	}
}
