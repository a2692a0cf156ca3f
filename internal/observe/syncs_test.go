package observe

import (
	"errors"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/view"
)

// Two measurements at the same time would measure each other.
func TestDisksAreMeasuredOneAtATime(t *testing.T) {
	var p Probes
	p.busy.Lock()
	if err := p.Measure(t.Context(), nil); !errors.Is(err, ErrProbing) {
		t.Errorf("%v", err)
	}
	p.busy.Unlock()
	if err := p.Measure(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// The last minutes count if they had enough syncs, otherwise the time since the start.
func TestSyncsOfTheLastMinutesCount(t *testing.T) {
	var h syncHistory
	begin := time.Unix(1000, 0)
	at := func(after time.Duration, quick, slow uint64) view.Latency {
		seen := metrics.Distribution{
			Count:   quick + slow,
			Buckets: []metrics.Bucket{{Upper: 0.001, Count: quick}, {Upper: 0.05, Count: quick + slow}},
		}
		return h.add(begin.Add(after), map[string]metrics.Distribution{"/d": seen},
			map[string]metrics.Distribution{"/d": {Count: quick + slow, Sum: 3 * float64(quick+slow)}})["/d"]
	}
	is := func(got view.Latency, count uint64, median time.Duration, over string) {
		t.Helper()
		if got.Count != count || got.Median != median || got.Over != over || got.Records != 3 {
			t.Errorf("%+v, want %d, %v %s", got, count, median, over)
		}
	}
	is(at(0, 1000, 0), 1000, time.Millisecond, "since the start")
	is(at(time.Minute, 1000, 200), 1200, time.Millisecond, "since the start")
	is(at(6*time.Minute, 1000, 300), 300, 50*time.Millisecond, "in the last 6m0s")
	for i := range 1000 { // frequent calls do not change the result
		at(6*time.Minute+time.Duration(i)*time.Millisecond, 1000, 300)
	}
	is(at(10*time.Minute, 1000, 350), 350, 50*time.Millisecond, "in the last 10m0s")
	if n := len(h.samples); n > 20 {
		t.Errorf("%d samples remain", n)
	}
	is(at(16*time.Minute, 1000, 380), 1380, time.Millisecond, "since the start")
	if got := seconds(metrics.Distribution{Count: 1}.Quantile(0.5)); got < 100*time.Hour {
		t.Errorf("above every bucket: %v", got)
	}
}
