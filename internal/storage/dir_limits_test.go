package storage

import (
	"math"
	"testing"

	"github.com/chronik-io/chronik/internal/vfs"
)

// The sum of the size limits follows creations, configurations and deletions.
func TestSizeLimits(t *testing.T) {
	d := mustOpen(t, vfs.Memory(), "sync")
	want := func(when string, logs int, bytes int64) {
		t.Helper()
		if n, sum := d.SizeLimits(); n != logs || sum != bytes {
			t.Errorf("%s: %d bytes of %d logs, want %d of %d", when, sum, n, bytes, logs)
		}
	}
	want("without a log", 0, 0)
	logs := makeLogs(t, d, 3, "sync")
	limit := func(l *Log, c Cleanup) {
		conf := testConfig("sync")
		conf.Cleanup = c
		l.Configure(conf)
	}
	limit(logs[0], Cleanup{Delete: true, RetentionTime: -1, RetentionBytes: 100})
	want("with one limit", 1, 100)
	limit(logs[1], Cleanup{Delete: true, RetentionTime: -1, RetentionBytes: math.MaxInt64})
	want("with a sum beyond 2^63", 2, math.MaxInt64)
	limit(logs[1], Cleanup{Delete: true, RetentionTime: 1, RetentionBytes: 100})
	want("after a limit by time", 1, 100)
	limit(logs[2], Cleanup{Compact: true, RetentionTime: -1, RetentionBytes: 100})
	want("with a compacted log", 1, 100)
	must(t, d.Delete(logs[0]))
	want("after a deletion", 0, 0)
}
