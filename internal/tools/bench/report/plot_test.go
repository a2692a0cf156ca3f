package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Every scale contains its values, and its marks are inside it, in order, each with its own text.
func TestScalesHoldTheirValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := math.Pow(10, rapid.Float64Range(-6, 12).Draw(t, "low"))
		high := low * math.Pow(10, rapid.Float64Range(0, 8).Draw(t, "more"))
		for _, s := range []scale{linear(high), decades(low, high), nines(int64(high))} {
			if s.log && s.min > low*(1+1e-9) && s.marks[0].text != "0%" {
				t.Fatalf("%+v does not hold %g", s, low)
			}
			if s.max < high*(1-1e-9) && s.marks[0].text != "0%" {
				t.Fatalf("%+v does not hold %g", s, high)
			}
			if len(s.marks) < 2 || len(s.marks) > 24 {
				t.Fatalf("%d marks from %g to %g", len(s.marks), s.min, s.max)
			}
			for i, m := range s.marks {
				if p := s.place(m.at); p < 0 || p > 1 || (i > 0 && p <= s.place(s.marks[i-1].at)) {
					t.Fatalf("mark %v of %+v at %g", m, s, p)
				}
				if i > 0 && m.text == s.marks[i-1].text {
					t.Fatalf("two marks %q", m.text)
				}
			}
		}
	})
}

func TestScalePlaces(t *testing.T) {
	for _, tc := range []struct {
		s       scale
		v, want float64
	}{
		{linear(100), 0, 0}, {linear(100), 50, 0.5}, {linear(100), 100, 1}, {linear(100), 200, 1}, {linear(100), -1, 0},
		{decades(1, 100), 10, 0.5}, {decades(1, 100), 0, 0},
		{nines(1000), 1, 0}, {nines(1000), 1000, 1}, {nines(1000), 10, 1.0 / 3},
	} {
		if got := tc.s.place(tc.v); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%g of %g..%g at %g, not %g", tc.v, tc.s.min, tc.s.max, got, tc.want)
		}
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.05: "0.05", 1: "1", 999: "999", 1000: "1k", 82600: "82.6k", 1.5e6: "1.5M",
		2e9: "2G", 0.0001234: "0.0001234", 12345: "12.35k"} {
		if got := short(v); got != want {
			t.Errorf("%g is written %q, not %q", v, got, want)
		}
	}
}

// A plot is well-formed XML for any names, has a line for each series and a dot for each value, and
// says so if it is empty.
func TestPlotIsWellFormed(t *testing.T) {
	p := plot{x: linear(3), y: decades(1, 50), xName: "a < b & \"c\"", yName: "<script>", caption: `"><script>`, empty: "nothing & no one",
		lines: []line{
			{name: "<one>", points: []point{{x: 1, y: 2, text: "<b>"}, {x: 2, y: 30}}},
			{name: "two", points: []point{{x: 3, y: 50}}},
		}}
	got := p.svg()
	if n := strings.Count(got, `class="dot one c1"`); n != 1 {
		t.Errorf("a line of one place shows it %d times", n)
	}
	if n := wellFormed(t, got); n["polyline"] != 2 || n["circle"] != 3 || n["script"] != 0 {
		t.Errorf("elements %v", n)
	}
	p.lines = nil
	if got := p.svg(); !strings.Contains(got, "nothing &amp; no one") {
		t.Errorf("an empty plot says nothing: %s", got)
	}
}

// The value of an interval is drawn over all of it: a curve starts at the start of the interval.
func TestAValueIsDrawnOverItsInterval(t *testing.T) {
	p := plot{x: linear(2), y: linear(10), lines: []line{{name: "rate", points: []point{{x: 1, y: 5, width: 1}, {x: 2, y: 10, width: 1}}}}}
	got := p.svg()
	begin, middle := fmt.Sprintf(`points="%.1f,`, p.left(0)), fmt.Sprintf(`cx="%.1f"`, p.left(0.5))
	if !strings.Contains(got, begin) || !strings.Contains(got, middle) {
		t.Errorf("no %q or no %q in %s", begin, middle, got)
	}
}

// wellFormed parses a document and counts its elements.
func wellFormed(t *testing.T, doc string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(doc)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
		if e, ok := token.(xml.StartElement); ok {
			n[e.Name.Local]++
		}
	}
}
