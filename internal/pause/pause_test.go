package pause

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPauseDoublesUpToItsBound(t *testing.T) {
	b := Backoff{First: 30 * time.Millisecond, Most: 100 * time.Millisecond}
	for failures, want := range map[int]time.Duration{-1: 30, 0: 30, 1: 30, 2: 60, 3: 100, 4: 100, math.MaxInt: 100} {
		if got := b.After(failures); got != want*time.Millisecond {
			t.Errorf("after %d failures: %v, want %v ms", failures, got, int(want))
		}
	}
	if got := (Backoff{First: time.Hour, Most: math.MaxInt64}).After(math.MaxInt); got != math.MaxInt64 {
		t.Errorf("the largest bound: %v", got)
	}
	if got := (Backoff{First: time.Second, Most: time.Millisecond}).After(1); got != time.Millisecond {
		t.Errorf("a first pause above the bound: %v", got)
	}
	if got := (Backoff{Most: time.Second}).After(math.MaxInt); got != 0 {
		t.Errorf("a first pause of nothing: %v", got)
	}
}

func TestASpreadPauseIsShorterByAtMostAQuarter(t *testing.T) {
	b := Backoff{First: time.Second, Most: time.Minute}
	seen := map[time.Duration]bool{}
	for range 200 {
		d := b.Spread(2)
		if d > 2*time.Second || d < 1500*time.Millisecond {
			t.Fatalf("a pause of %v instead of 1.5 s to 2 s", d)
		}
		seen[d] = true
	}
	if len(seen) < 100 {
		t.Errorf("200 pauses have %d lengths", len(seen))
	}
	if d := Spread(0); d != 0 {
		t.Errorf("no pause became %v", d)
	}
}

func TestASleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("stopped")
		begin := time.Now()
		if err := Sleep(t.Context(), time.Hour); err != nil || time.Since(begin) != time.Hour {
			t.Errorf("slept %v: %v", time.Since(begin), err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, why)
		defer cancel()
		begin = time.Now()
		if err := Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("slept %v: %v", time.Since(begin), err)
		}
		for range 100 { // both are ready: the end counts
			if Sleep(ctx, 0) == nil || Sleep(ctx, -1) == nil {
				t.Fatal("a sleep of an ended context succeeded")
			}
		}
	})
}
