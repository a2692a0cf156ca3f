package top

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The first measurement takes the interval; each later one begins where the one before ended. A
// sample that fails does not end the series.
func TestMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, fails := time.Now(), error(nil)
		since := func() int64 { return int64(time.Since(begun) / time.Second) }
		asked := 0
		ask := func(context.Context) (*sample, error) {
			asked++
			if fails != nil {
				return nil, fails
			}
			return busy(since()), nil
		}
		m := &top{interval: 3 * time.Second}
		r, _, err := m.measure(t.Context(), ask)
		if err != nil || since() != 3 || asked != 2 || r.Seconds != 3 || *r.Topics[1].RecordsIn != 10 {
			t.Fatalf("%+v, %v after %d s, %d samples", r, err, since(), asked)
		}
		time.Sleep(2 * time.Second)
		fails = errors.New("away")
		if _, _, err := m.measure(t.Context(), ask); !errors.Is(err, fails) {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		fails = nil
		r, _, err = m.measure(t.Context(), ask)
		if err != nil || since() != 10 || asked != 4 || r.Seconds != 7 || *r.Topics[1].RecordsIn != 10 {
			t.Errorf("%+v, %v after %d s, %d samples", r, err, since(), asked)
		}
	})
}

// An interrupted measurement has no figures.
func TestMeasureInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	m := &top{interval: time.Hour}
	r, _, err := m.measure(ctx, func(context.Context) (*sample, error) { stop(); return busy(1), nil })
	if err == nil {
		t.Errorf("%+v", r)
	}
}
