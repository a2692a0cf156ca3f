package pause

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestGoroutinesShareAPace(t *testing.T) {
	for _, perSec := range []float64{0.5, 20, 7000, 1e6} {
		synctest.Test(t, func(t *testing.T) {
			var p Pace
			var group sync.WaitGroup
			begin := time.Now()
			for range 10 {
				group.Go(func() {
					for range 100 {
						time.Sleep(p.Count(3, perSec))
					}
				})
			}
			group.Wait()
			took, want := time.Since(begin), time.Duration(3000/perSec*float64(time.Second))
			if took < want-leastPause || took > want {
				t.Errorf("3000 at %v a second took %v, want %v", perSec, took, want)
			}
		})
	}
}

func TestThePausesOfAPace(t *testing.T) {
	const ms = time.Millisecond
	type step struct {
		after  time.Duration
		n      int
		perSec float64
		want   time.Duration
	}
	for name, c := range map[string]struct {
		idle  time.Duration
		steps []step
	}{
		"little idle time is made up for, more is not": {time.Second, []step{{0, 10, 1000, 10 * ms}, {5 * ms, 0, 1000, 5 * ms},
			{1005 * ms, 300, 1000, 0}, {0, 700, 1000, 0}, {0, 5, 1000, 5 * ms}, {1006 * ms, 5, 1000, 5 * ms}}},
		"no idle time is made up for": {0, []step{{0, 10, 1000, 10 * ms}, {11 * ms, 10, 1000, 10 * ms}, {4 * ms, 10, 1000, 16 * ms}}},
		"short pauses add up":         {0, []step{{0, 1, 2000, 0}, {0, 1, 2000, ms}}},
		"a changed rate forgets": {time.Second, []step{{0, 100, 1, 100 * time.Second}, {0, 100, 1, 200 * time.Second},
			{0, 0, 10, 0}, {0, 10, 10, time.Second}, {0, 1 << 40, 0, 0}, {0, 1 << 40, -1, 0}, {0, 10, 10, time.Second}}},
		"the longest pause": {0, []step{{0, math.MaxInt, 1e-9, 1 << 62}, {0, math.MaxInt, 1e-9, math.MaxInt64}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := Pace{Idle: c.idle}
			for i, x := range c.steps {
				time.Sleep(x.after)
				if d := p.Count(x.n, x.perSec); d != x.want {
					t.Errorf("%s: step %d: a pause of %v, want %v", name, i, d, x.want)
				}
			}
		})
	}
}
