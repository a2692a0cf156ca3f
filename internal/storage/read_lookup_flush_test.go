package storage

import (
	"sync/atomic"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// A lookup by time finds records that are flushed while it reads the segments, to the active
// segment or to a new one.
func TestLookupsByTimeFindRecordsFlushedMeanwhile(t *testing.T) {
	for _, rolls := range []bool{false, true} {
		for name, lookup := range map[string]func(l *Log) (Timestamp, error){
			"FindTime": func(l *Log) (Timestamp, error) { return l.FindTime(2500, 3) },
			"MaxTime":  func(l *Log) (Timestamp, error) { return l.MaxTime(3) },
		} {
			disk := crashfs.New(1)
			d := mustOpen(t, disk, "sync/atomic")
			l := makeLogs(t, d, 1, "sync/atomic")[0]
			followAt(t, l, 0, 1000)
			must(t, l.flushAndSync())
			must(t, d.checkpoint(nil))
			errs := errfs.New(disk.KillImage(1)) // makes the lookup read the segment
			l = byPartition(t, mustOpen(t, errs, "sync/atomic"), 0)
			followAt(t, l, 1, 2000)
			followAt(t, l, 2, 3000)
			if rolls {
				cfg := l.Config()
				cfg.Segment.Bytes = 1
				l.Configure(cfg)
			}
			var begun atomic.Bool // the flush also reads the segment
			flushed := false
			errs.Add(errfs.Rule{Ops: errfs.Read, Path: "/d/*-*/*.log", Before: func(errfs.Call) {
				if begun.CompareAndSwap(false, true) {
					flushed = l.flush() == nil
				}
			}})
			got, err := lookup(l)
			if err != nil || got.Offset != 2 || got.Time != 3000 || !flushed {
				t.Errorf("%s, rolls %v: %+v, %v (flushed: %v)", name, rolls, got, err, flushed)
			}
			errs.Clear()
		}
	}
}

// followAt appends a replicated record with an offset and a timestamp.
func followAt(t *testing.T, l *Log, offset, ts int64) {
	t.Helper()
	if a := follow(l, at(t, offset, 1, ts)); a.Err != nil {
		t.Fatal(a.Err)
	}
	eventually(t, "it counts", func() bool { return l.AckEnd() == offset+1 })
}
