package page

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/chronik-io/chronik/internal/metrics"
)

// seen returns a histogram with n observations of at most a second each, all in one bucket.
func seen(n uint64) metrics.Distribution {
	return metrics.Distribution{Count: n, Sum: float64(n), Buckets: []metrics.Bucket{{Upper: 0.5}, {Upper: 1, Count: n}}}
}

func TestHistoryKeepsRatesOfTheLastHour(t *testing.T) {
	var h History
	begin := now()
	if l := h.lines(); len(l.at) != 0 || !l.synced.IsZero() {
		t.Errorf("an empty history: %+v", l)
	}
	h.Add(begin, Totals{BytesIn: 1e6, Requests: 7, Syncs: seen(3), Records: 50})
	h.Add(begin.Add(5*time.Second), Totals{BytesIn: 1.5e6, Requests: 7, Syncs: seen(3), Records: 50, JournalBytes: 8})
	h.Add(begin.Add(15*time.Second), Totals{BytesIn: 1.5e6, Requests: 27, Syncs: seen(13), Records: 250, JournalBytes: 9})
	l := h.lines()
	for s, want := range map[series][]float32{
		bytesIn: {1e5, 0}, requests: {0, 2}, syncs: {0, 1}, recordsIn: {0, 20}, journal: {8, 9},
		perSync: {nan, 20}, syncP50: {nan, 0.75}, produceP99: {nan, nan},
	} {
		for i := range want {
			if got := l.values[s][i]; got != want[i] && !(math.IsNaN(float64(got)) && math.IsNaN(float64(want[i]))) {
				t.Errorf("series %d is %v, want %v", s, l.values[s], want)
			}
		}
	}
	if v, ok := l.now(syncP50); v != 0.75 || !ok {
		t.Errorf("now: %v %v", v, ok)
	}
	if v, ok := l.now(produceP50); ok {
		t.Errorf("an unknown value is %v now", v)
	}
	if !l.synced.Equal(begin.Add(15 * time.Second)) {
		t.Errorf("synced at %v", l.synced)
	}
	// A clock that is set back does not cause infinite rates.
	h.Add(begin, Totals{BytesIn: 9e9})
	if l := h.lines(); len(l.at) != 2 {
		t.Errorf("%d samples after the clock was set back", len(l.at))
	}
}

var nan = float32(math.NaN())

// The memory does not depend on the number of samples.
func TestHistoryIsBounded(t *testing.T) {
	if size := unsafe.Sizeof(History{}); size > 200<<10 {
		t.Errorf("a history has %d bytes", size)
	}
	var h History
	for i := range 10_000 {
		h.Add(now().Add(time.Duration(i)*SampleEvery), Totals{BytesIn: float64(i * i)})
	}
	l := h.lines()
	if len(l.at) != Points || len(l.values[bytesIn]) != Points {
		t.Fatalf("%d samples", len(l.at))
	}
	for i := range l.at {
		if i > 0 && l.at[i]-l.at[i-1] != SampleEvery.Milliseconds() {
			t.Fatalf("sample %d comes %d ms after the one before", i, l.at[i]-l.at[i-1])
		}
	}
	if last, first := l.values[bytesIn][Points-1], l.values[bytesIn][0]; last != float32(19997)/5 ||
		math.Abs(float64(last-first)-2*(Points-1)/5.) > 0.01 {
		t.Errorf("from %v to %v", first, last)
	}
	if n := testing.AllocsPerRun(100, func() { h.Add(now(), Totals{}) }); n > 4 {
		t.Errorf("a sample allocates %v times", n)
	}
}

func TestHistorySamplesWhileTheBrokerServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h History
		var asked atomic.Int64
		var serving atomic.Bool
		go h.Run(t.Context(), func() (Totals, bool) { asked.Add(1); return Totals{}, serving.Load() })
		time.Sleep(time.Minute) // of the test's own clock
		synctest.Wait()
		if l := h.lines(); asked.Load() != 13 || len(l.at) != 0 {
			t.Errorf("%d calls, %d samples of a starting broker", asked.Load(), len(l.at))
		}
		serving.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if l := h.lines(); len(l.at) != 11 {
			t.Errorf("%d samples", len(l.at))
		}
	})
}
