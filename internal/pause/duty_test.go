package pause

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// All goroutines together work for a third of the time of the processors.
func TestGoroutinesHaveAThird(t *testing.T) {
	for _, goroutines := range []int{1, 2, 10} {
		synctest.Test(t, func(t *testing.T) {
			s := NewDuty()
			var group sync.WaitGroup
			begin := time.Now()
			for range goroutines {
				group.Go(func() {
					w := s.Begin()
					for range 1000 {
						time.Sleep(time.Millisecond) // the work
						w.Rest(1 << 20)
					}
				})
			}
			group.Wait()
			took := time.Since(begin)
			want := max(time.Duration(goroutines)*3*time.Second/time.Duration(runtime.GOMAXPROCS(0)), time.Second)
			if took < want-2*dutyIdle || took > want+2*dutyIdle+time.Duration(goroutines)*3*time.Millisecond {
				t.Errorf("%d goroutines took %v, want %v", goroutines, took, want)
			}
		})
	}
}

// Time in which a disk or a network is waited for is no work, and neither is what Restart leaves
// out.
func TestWaitsAreNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewDuty()
		w, begin := s.Begin(), time.Now()
		for range 100 {
			time.Sleep(time.Second)
			w.Rest(1 << 10)
			time.Sleep(time.Second)
			w.Restart()
			w.Rest(1 << 20)
		}
		if took := time.Since(begin); took != 200*time.Second {
			t.Errorf("with %v of rests", took-200*time.Second)
		}
	})
}

func TestWithoutADutyNothingRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, begin := (*Duty)(nil).Begin(), time.Now()
		for range 100 {
			time.Sleep(time.Millisecond)
			w.Rest(1 << 30)
		}
		if took := time.Since(begin); took != 100*time.Millisecond {
			t.Errorf("with %v of rests", took-100*time.Millisecond)
		}
	})
}
