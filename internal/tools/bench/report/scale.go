package report

import (
	"math"
	"strconv"
	"strings"
)

// scale maps values to 0..1 and has the marks of an axis.
type scale struct {
	min, max float64
	log      bool
	marks    []mark
}

// mark is a labelled line across a plot.
type mark struct {
	at   float64
	text string
}

// place returns the position of v: 0 at min, 1 at max. Values outside are moved to the edge.
func (s scale) place(v float64) float64 {
	low, high := s.min, s.max
	if s.log {
		v, low, high = math.Log(max(v, math.SmallestNonzeroFloat64)), math.Log(low), math.Log(high)
	}
	if high <= low {
		return 0
	}
	return min(max((v-low)/(high-low), 0), 1)
}

// wantedMarks is the approximate number of marks of an axis.
const wantedMarks = 6

// linear returns a scale from zero to at least high, with marks at round numbers.
func linear(high float64) scale {
	if high <= 0 || math.IsNaN(high) || math.IsInf(high, 0) {
		high = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(high/wantedMarks)))
	for _, f := range []float64{1, 2, 5, 10} {
		if high/(step*f) <= wantedMarks {
			step *= f
			break
		}
	}
	s := scale{max: math.Ceil(high/step-1e-9) * step}
	for i := 0; float64(i)*step <= s.max*(1+1e-9); i++ {
		s.marks = append(s.marks, mark{float64(i) * step, short(float64(i) * step)})
	}
	return s
}

// decades returns a logarithmic scale that contains low and high, both positive, with marks at 1, 2
// and 5 of each power of ten, or only at the powers if there are many.
func decades(low, high float64) scale {
	if low <= 0 || math.IsNaN(low) {
		low = 1
	}
	high = max(high, low)
	steps := []float64{1, 2, 5, 10}
	if high/low > 1000 {
		steps = []float64{1, 10}
	}
	s := scale{log: true, min: roundDown(low, steps), max: roundUp(high, steps)}
	if s.min == s.max {
		s.max = roundUp(high*1.01, steps)
	}
	for power := math.Floor(math.Log10(s.min)); power <= math.Log10(s.max); power++ {
		for _, f := range steps[:len(steps)-1] {
			v := f * math.Pow(10, power)
			if v >= s.min*(1-1e-9) && v <= s.max*(1+1e-9) {
				s.marks = append(s.marks, mark{v, short(v)})
			}
		}
	}
	return s
}

func roundDown(v float64, steps []float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(v)))
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i]*base <= v*(1+1e-9) {
			return steps[i] * base
		}
	}
	return base
}

func roundUp(v float64, steps []float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range steps {
		if f*base >= v*(1-1e-9) {
			return f * base
		}
	}
	return 10 * base
}

// nines returns the scale of percentiles: a step for each factor of ten by which fewer values are
// above it, from 0 % to the last percentile that count values can resolve.
func nines(count int64) scale {
	last := 2
	for c := count; c >= 1000 && last < 7; c /= 10 {
		last++
	}
	s := scale{log: true, min: 1, max: math.Pow10(last)}
	for i := range last + 1 {
		s.marks = append(s.marks, mark{math.Pow10(i), percent(i)})
	}
	return s
}

// percent returns 1-10^-i as an exact percentage.
func percent(i int) string {
	switch i {
	case 0:
		return "0%"
	case 1:
		return "90%"
	case 2:
		return "99%"
	default:
		return "99." + strings.Repeat("9", i-2) + "%"
	}
}

// short formats v with at most four digits and k, M or G.
func short(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= unit.size*0.9999999 {
			return strconv.FormatFloat(round4(v/unit.size), 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(round4(v), 'f', -1, 64)
}

func round4(v float64) float64 {
	if v == 0 {
		return 0
	}
	f := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*f) / f
}
