package page

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

// filled returns a history with a sample every five seconds, the last one now.
func filled(n int, records func(i int) float64) *lines {
	var h History
	total := 0.0
	h.Add(now().Add(-time.Duration(n)*SampleEvery), Totals{})
	for i := range n {
		total += 5 * records(i)
		h.Add(now().Add(time.Duration(i-n+1)*SampleEvery), Totals{Records: total})
	}
	l := h.lines()
	return &l
}

func TestPlotsSpanAllSamples(t *testing.T) {
	for n, want := range map[int]struct {
		span    time.Duration
		columns int
	}{0: {5 * time.Minute, 60}, 20: {5 * time.Minute, 60}, 70: {15 * time.Minute, 180}, 300: {time.Hour, 240}, 720: {time.Hour, 240}} {
		if got := spanFor(filled(n, func(int) float64 { return 1 }), now()); got != (span{want.span, want.columns}) {
			t.Errorf("%d samples: %+v", n, got)
		}
	}
}

func TestPlotDrawsGapsAndDots(t *testing.T) {
	columns := []float64{math.NaN(), 0, 50, math.NaN(), 100, math.NaN(), 200, 25}
	line, area := pathsOf(columns, 100)
	if want := "M1 100L2 50M4 0h0M6 0L7 75"; line != want {
		t.Errorf("line %s, want %s", line, want)
	}
	if want := "M1 100V100L2 50V100ZM4 100V0V100ZM6 100V0L7 75V100Z"; area != want {
		t.Errorf("area %s, want %s", area, want)
	}
	if got := valuesOf(columns[:5], shortText); got != "|0|50||100" {
		t.Errorf("values %s", got)
	}
}

// A sample that is slightly late leaves no gap; a broker that was down does.
func TestPlotBridgesALateSampleOnly(t *testing.T) {
	var h History
	at := []int{-100, -95, -90, -84, -80, -40, -35, 0} // seconds; the 5 s between -90 and -84 hold no sample
	for i, s := range at {
		h.Add(now().Add(time.Duration(s)*time.Second), Totals{JournalBytes: float64(10 * i * i)})
	}
	l := h.lines()
	columns := columnsOf(&l, journal, now(), spanFor(&l, now()))
	var b strings.Builder
	for _, v := range columns {
		b.WriteByte(map[bool]byte{true: ' ', false: 'x'}[math.IsNaN(v)])
	}
	if got := b.String()[len(columns)-20:]; got != "xxxx       xx      x" {
		t.Errorf("%q", got)
	}
	// Samples are unchanged, and the bridged value is in the middle.
	if got := columns[40:44]; !slices.Equal(got, []float64{10, 40, 82.5, 125}) {
		t.Errorf("%v", got)
	}
}

func TestPlotScaleIsRound(t *testing.T) {
	for _, c := range []struct {
		top  float64
		size bool
		want float64
	}{{10, false, 10}, {11, false, 20}, {0.0012, false, 0.002}, {5, false, 5}, {510, false, 1000}, {10 << 10, true,
		10 << 10}, {11 << 10, true, 20 << 10},
		{600 << 20, true, 1000 << 20}, {1001 << 10, true, 1 << 20}} {
		if got := niceTop(c.top, c.size); math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("%v: %v, want %v", c.top, got, c.want)
		}
	}
}

func TestRatesCompareRequests(t *testing.T) {
	var r rates
	at := now()
	look := func(after time.Duration, ends int64) (float64, bool) {
		at = at.Add(after)
		topics := []view.Topic{{Name: "a", Ends: ends}}
		return r.measure(at, topics)(&topics[0])
	}
	for i, c := range []struct {
		after time.Duration
		ends  int64
		rate  float64
		known bool
	}{
		{0, 100, 0, false},                       // no earlier call
		{500 * time.Millisecond, 120, 0, false},  // too soon
		{1500 * time.Millisecond, 140, 20, true}, // over two seconds
		{3 * time.Second, 200, 20, true},         // over five
		{2 * time.Second, 340, 240. / 7, true},   // still from the first call
		{5 * time.Second, 340, 20, true},         // from the call at five seconds: 140 in 7
		{time.Second, 10, 0, false},              // the topic was created again
		{time.Hour, 500, 0, false},               // all sums are too old
		{5 * time.Second, 600, 20, true},
	} {
		if rate, known := look(c.after, c.ends); math.Abs(rate-c.rate) > 1e-9 || known != c.known {
			t.Errorf("call %d: %v %v, want %v %v", i, rate, known, c.rate, c.known)
		}
	}
}
