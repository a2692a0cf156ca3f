package meter

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begun returns a meter whose window has begun: one second of warm-up, then 2.5 s.
func begun() *Meter {
	w := NewWindow(time.Second, 2500*time.Millisecond)
	w.step = time.Second
	w.Begin()
	return New(w)
}

const ms = time.Millisecond

var one = Amount{Requests: 1, Records: 1, Payload: 10, Wire: 30}

func TestOnlyWhatEndsInsideTheIntervalCounts(t *testing.T) {
	m := begun()
	l := m.NewRecorder()
	l.Done(900*ms, 999*ms, one)   // warm-up
	l.Done(900*ms, 1000*ms, one)  // began in the warm-up, ended inside
	l.Done(3400*ms, 3499*ms, one) // the last
	l.Done(3400*ms, 3500*ms, one) // ended at the end of the interval: late
	l.Fail(900*ms, 950*ms, "EARLY", 2)
	l.Fail(1200*ms, 1300*ms, "INSIDE", 3)
	l.Fail(3450*ms, 4000*ms, "LATE", 1)
	l.Count(500*ms, Amount{Wire: 1000})
	l.Count(1500*ms, Amount{Wire: 5})
	got := m.Totals()
	if want := (Amount{Requests: 2, Records: 2, Payload: 20, Wire: 65}); got.Amount != want {
		t.Errorf("counted %+v, want %+v", got.Amount, want)
	}
	if n := got.Latency.TotalCount(); n != 2 {
		t.Errorf("%d samples for 2 successes", n)
	}
	if len(got.Failures) != 1 || got.Failures["INSIDE"] != 3 || got.Early != 2 {
		t.Errorf("failures %v and %d early", got.Failures, got.Early)
	}
	if got.Unanswered != 2 || got.Oldest != 100*ms {
		t.Errorf("%d in flight at the end, oldest for %v; want 2 and 100ms", got.Unanswered, got.Oldest)
	}
}

func TestWhatBeganAfterTheIntervalIsNotInFlightAtItsEnd(t *testing.T) {
	m := begun()
	l := m.NewRecorder()
	l.Done(3500*ms, 3600*ms, one)
	if got := m.Totals(); got.Unanswered != 0 {
		t.Errorf("%d in flight", got.Unanswered)
	}
}

func TestWhatWasDueAndNotSentIsCounted(t *testing.T) {
	m := begun()
	m.NewRecorder().Unsent(3000*ms, 7)
	if got := m.Totals(); got.Unanswered != 7 || got.Oldest != 500*ms {
		t.Errorf("%d unsent, oldest %v", got.Unanswered, got.Oldest)
	}
}

func TestEverySampleIsRecorded(t *testing.T) {
	m := begun()
	var wg sync.WaitGroup
	const workers, each = 8, 3*bunch + 17
	for range workers {
		l := m.NewRecorder()
		wg.Go(func() {
			for i := range each {
				now := 1000*ms + time.Duration(i)*2490*ms/each
				l.Done(now-time.Duration(i+1)*time.Microsecond, now, one)
			}
		})
	}
	wg.Wait()
	got := m.Totals()
	if got.Records != workers*each || got.Latency.TotalCount() != workers*each {
		t.Errorf("%d records, %d samples, want %d", got.Records, got.Latency.TotalCount(), workers*each)
	}
	if top := got.Latency.Max(); top < each*999/1000 || top > each*1001/1000 {
		t.Errorf("longest %d µs, want about %d", top, each)
	}
	var sum int64
	for _, p := range got.Points {
		sum += p.Records
	}
	if len(got.Points) != 3 || sum != workers*each {
		t.Errorf("%d points with %d records", len(got.Points), sum)
	}
}

func TestPointsHoldTheirSecond(t *testing.T) {
	m := begun()
	l := m.NewRecorder()
	for i := range 100 {
		l.Done(1100*ms, 1100*ms+time.Duration(i+1)*ms, one)
	}
	l.Fail(2100*ms, 2200*ms, "X", 4)
	first := m.Close(1)
	if len(first) != 1 || first[0].Records != 100 || first[0].P50.Round(ms) != 50*ms || first[0].Max.Round(ms) != 100*ms {
		t.Fatalf("first second %+v", first)
	}
	if p99 := first[0].P99.Round(ms); p99 != 99*ms {
		t.Errorf("p99 %v", p99)
	}
	// A late sample of a slow worker also counts.
	l2 := m.NewRecorder()
	l2.Done(1000*ms, 1500*ms, one)
	got := m.Totals()
	if p := got.Points[0]; p.Records != 101 || p.Max.Round(ms) != 500*ms || got.Latency.TotalCount() != 101 {
		t.Errorf("after a late sample %+v, %d in all", p, got.Latency.TotalCount())
	}
	if p := got.Points[1]; p.Failures != 4 || p.Records != 0 {
		t.Errorf("second second %+v", p)
	}
}

// The histogram rounds up; the quantiles of a point do not exceed its exact maximum.
func TestQuantilesOfAPointAreNotAboveItsMaximum(t *testing.T) {
	m := begun()
	m.NewRecorder().Done(1100*ms, 1100*ms+37_220*time.Microsecond, one)
	if p := m.Totals().Points[0]; p.Max != 37_220*time.Microsecond || p.P50 != p.Max || p.P99 != p.Max {
		t.Errorf("%+v", p)
	}
}

func TestLongSamplesAreAnHour(t *testing.T) {
	m := begun()
	m.NewRecorder().Done(-100*time.Hour, 1100*ms, one)
	if top := m.Totals().Latency.Max(); top < highest*999/1000 {
		t.Errorf("longest %d µs", top)
	}
}

func TestCutEndsTheIntervalNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begun()
		w := m.Window()
		l := m.NewRecorder()
		time.Sleep(1700 * ms)
		l.Done(1500*ms, w.Now(), one)
		time.Sleep(100 * ms)
		w.Cut()
		l.Done(1700*ms, w.Now(), one)
		w.Cut()
		if w.Elapsed() != 800*ms || w.Until() != 1800*ms {
			t.Errorf("cut at 1.8 s: elapsed %v, until %v", w.Elapsed(), w.Until())
		}
		if got := m.Totals(); got.Records != 1 || got.Unanswered != 1 || len(got.Points) != 1 {
			t.Errorf("cut: %+v", got.Amount)
		}
	})
}

func TestCutInTheWarmUpLeavesNothing(t *testing.T) {
	w := NewWindow(time.Hour, time.Hour)
	w.Begin()
	w.Cut()
	if w.Elapsed() != 0 {
		t.Errorf("elapsed %v", w.Elapsed())
	}
}

func TestCutAfterTheEndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWindow(0, time.Second)
		w.Begin()
		time.Sleep(2 * time.Second)
		w.Cut()
		if w.Elapsed() != time.Second || !w.Started().Equal(time.Now().Add(-2*time.Second)) {
			t.Errorf("elapsed %v, started %v", w.Elapsed(), w.Started())
		}
	})
}

func BenchmarkDone(b *testing.B) {
	w := NewWindow(0, time.Hour)
	w.Begin()
	l := New(w).NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		now := w.Now()
		l.Done(now-100*time.Microsecond, now, one)
	}
}
