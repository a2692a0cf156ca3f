package storage

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// The active segment of a compacted log rolls within max.compaction.lag.ms, even if no record
// follows, and even if the records are only in the journal.
func TestACompactedLogRollsWithoutAppends(t *testing.T) {
	for name, size := range map[string]int{"in a segment": 700, "in the journal": 10} {
		synctest.Test(t, func(t *testing.T) {
			disk := crashfs.New(1)
			d, err := openDir(disk, "sync", func(o *Options) { o.RetentionInterval = 10 * time.Minute })
			must(t, err)
			cfg := keeping("sync", -1, -1)
			cfg.Cleanup.Delete, cfg.Cleanup.Compact, cfg.Cleanup.MaxLag = false, true, time.Hour
			l := kept(t, d, cfg)
			l.Observe(bounded{}) // nothing is below the high watermark, so compaction leaves the log alone
			putAt(t, l, 2, size, time.Now().UnixMilli())
			if size > 100 {
				_ = l.flush()
			}
			listed := func() []*segment.Segment {
				list, _ := l.snapshot()
				return list
			}
			time.Sleep(55 * time.Minute)
			if n := len(listed()); n > 1 {
				t.Errorf("%s: rolled before the lag has passed: %d segments", name, n)
			}
			time.Sleep(20 * time.Minute)
			if s := listed(); len(s) != 2 || s[0].Synced() != s[0].Size() || s[1].Size() != 0 {
				t.Fatalf("%s: %d segments when it has", name, len(s))
			}
			time.Sleep(5 * time.Hour)
			if n := len(listed()); n != 2 {
				t.Errorf("%s: an empty segment was rolled: %d", name, n)
			}
			holds(t, mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), "sync").Logs()[0], 2)
			putAt(t, l, 2, size, time.Now().UnixMilli())
			holds(t, l, 4)
			_ = d.Close()
			again, err := openDir(disk, "sync")
			must(t, err)
			holds(t, again.Logs()[0], 4)
			_ = again.Close()
		})
	}
}

// A segment rolls when timestamps differ by segment.ms, with compaction by max.compaction.lag.ms,
// even if one flush has records of both sides.
func TestSegmentsEndByAge(t *testing.T) {
	for name, c := range map[string]struct {
		ms, lag  int64
		compact  bool
		segments int
	}{
		"segment.ms":                     {ms: hour, segments: 3},
		"a longer one":                   {ms: 4 * hour, segments: 2},
		"max.compaction.lag.ms":          {ms: 100 * hour, lag: hour, compact: true, segments: 3},
		"the lag of a log that has none": {ms: 100 * hour, lag: hour, segments: 1},
	} {
		for _, flush := range []bool{false, true} {
			d := mustOpen(t, crashfs.New(1), "sync")
			cfg := keeping("sync", -1, -1)
			cfg.Segment.Bytes, cfg.Segment.Ms = 1<<20, c.ms
			cfg.Cleanup.Compact, cfg.Cleanup.MaxLag = c.compact, time.Duration(c.lag)*time.Millisecond
			l := kept(t, d, cfg)
			for _, age := range []int64{6 * hour, 5*hour + hour/2, 3 * hour, 0} {
				putAt(t, l, 1, 100, ago(age))
				if flush {
					_ = l.flush()
				}
			}
			_ = l.flush()
			if n := len(l.segments); n != c.segments {
				t.Errorf("%s, flushed after each record: %v: %d segments, want %d", name, flush, n, c.segments)
			}
			_ = d.Close()
		}
	}
}
