package tier

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// The age of copied records whose timestamps are not believable is the time since they were
// written, as on a local disk.
func TestRetentionOfTimestampsThatAreNotBelievable(t *testing.T) {
	for name, ts := range map[string]int64{"none": -1, "in years": time.Now().Add(10000 * time.Hour).UnixMilli()} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "sync", nil)
			b := w.brokers[0]
			b.stamp = func() int64 { return ts }
			w.conf.TimestampAfter, w.conf.Retention = time.Hour, 4*time.Hour
			w.lone(1, true)
			w.add(20)
			b.copyAll()
			must.OK(t, b.healthy())
			x := w.tier()
			if x.Start != 0 || x.End < 40 {
				t.Errorf("before retention.ms: %+v", x)
			}
			w.conf.Retention = time.Nanosecond
			clear(b.c.oldest) // a day later
			b.copyAll()
			must.OK(t, b.healthy())
			if y := w.tier(); y.Start < x.End || !y.Empty() {
				t.Errorf("after retention.ms: %+v", y)
			}
		})
	}
}
