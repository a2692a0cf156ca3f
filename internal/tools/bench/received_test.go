package bench

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

// A busy broker responds late: the records that it received in the meantime are distributed over
// that time instead of being lost.
func TestGrowthIsInterpolatedIfTheBrokerRespondsLate(t *testing.T) {
	w := meter.NewWindow(time.Second, 400*time.Millisecond)
	w.Begin()
	r := &runner{config: Config{Acks: AcksNone, Mode: ModeProduce, MessageSize: 10}, window: w}
	r.growth.samples = []sample{{0, 500}, {900 * time.Millisecond, 1000}, {1900 * time.Millisecond, 2000}}
	r.receive(4, nil)
	if r.received.Records != 400 || r.received.PayloadBytes != 4000 || len(r.received.Series) != 4 {
		t.Fatalf("received %+v, want 400 records in 4 points", r.received)
	}
	for i, p := range r.received.Series {
		if p.Records != 100 || p.At != time.Duration(i+1)*100*time.Millisecond {
			t.Errorf("point %d: %+v, want 100 records", i, p)
		}
	}
}

// A point is not reported before a response covers it.
func TestGrowthIsReportedWhenItIsKnown(t *testing.T) {
	w := meter.NewWindow(0, 400*time.Millisecond)
	w.Begin()
	r := &runner{config: Config{Acks: AcksNone, Mode: ModeProduce}, window: w}
	var reported int
	progress := func(string, Point) { reported++ }
	r.receive(2, progress)
	r.growth.samples = []sample{{-1, 0}, {150 * time.Millisecond, 150}}
	r.receive(2, progress)
	if reported != 1 {
		t.Errorf("%d points reported, one is known", reported)
	}
	r.growth.samples = append(r.growth.samples, sample{500 * time.Millisecond, 500})
	r.receive(4, progress)
	if reported != 4 || r.received.Records != 400 {
		t.Errorf("%d points reported, %d records", reported, r.received.Records)
	}
}
