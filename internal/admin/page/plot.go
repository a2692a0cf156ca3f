package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A plot shows the last hour in columns of equal time, each the mean of its samples. After a
// shorter run the plot has a shorter span with fewer columns, because a column is never shorter
// than the interval of the samples.
const (
	plotColumns = 240
	plotHeight  = 100.0 // in units of the SVG
)

// span is the period that plots show.
type span struct {
	of      time.Duration
	columns int
}

// spanFor returns the shortest span that contains all samples.
func spanFor(l *lines, now time.Time) span {
	for _, of := range []time.Duration{5 * time.Minute, 15 * time.Minute} {
		if len(l.at) == 0 || l.at[0] > now.Add(-of).UnixMilli() {
			return span{of, int(of / SampleEvery)}
		}
	}
	return span{time.Hour, plotColumns}
}

// title returns the span in words: "last 15 minutes".
func (s span) title() string {
	if s.of == time.Hour {
		return "last hour"
	}
	return fmt.Sprintf("last %d minutes", s.of/time.Minute)
}

// Plot is a figure of the overview.
type Plot struct {
	Title string
	// Lines share one scale from 0 to Top.
	Lines []Line
	Top   string
	// End is the right edge in unix milliseconds, Step the duration of a column.
	End, Step int64
	Columns   int
	Minutes   int // from the left edge to the right edge
	// Summary describes the plot in words.
	Summary string
}

// Line is a series in a plot.
type Line struct {
	Name, Now string
	// Path is the line and Area the surface below it, as SVG paths.
	Path, Area string
	// Values are the columns as text, separated by |; unknown ones are empty.
	Values string
}

// figure defines a plot.
type figure struct {
	title string
	of    []series
	names []string
	text  func(float64) string
	least float64 // minimum of the scale's top
	size  bool    // the values are bytes: see niceTop
}

func figures() []figure {
	perSecond := func(f func(float64) string) func(float64) string {
		return func(v float64) string { return f(v) + "/s" }
	}
	return []figure{
		{"Records in", []series{recordsIn}, []string{"records"}, perSecond(shortText), 10, false},
		{"Traffic", []series{bytesIn, bytesOut}, []string{"in", "out"}, perSecond(bytesText), 10 << 10, true},
		{"Produce requests", []series{produceP50, produceP99}, []string{"p50", "p99"}, secondsText, 1e-3, false},
		{"Disk sync", []series{syncP50, syncP99}, []string{"p50", "p99"}, secondsText, 1e-3, false},
		{"Records per sync", []series{perSync}, []string{"records"}, shortText, 10, false},
		{"Journal", []series{journal}, []string{"bytes"}, bytesText, 1 << 20, true},
	}
}

// plotsOf draws the history up to now.
func plotsOf(l *lines, now time.Time) []Plot {
	var all []Plot
	over := spanFor(l, now)
	for _, f := range figures() {
		all = append(all, f.draw(l, now, over))
	}
	return all
}

func (f *figure) draw(l *lines, now time.Time, over span) Plot {
	p := Plot{
		Title:   f.title,
		End:     now.UnixMilli(),
		Step:    over.of.Milliseconds() / int64(over.columns),
		Columns: over.columns,
		Minutes: int(over.of / time.Minute),
	}
	columns := make([][]float64, len(f.of))
	top := f.least
	for i, s := range f.of {
		columns[i] = columnsOf(l, s, now, over)
		for _, v := range columns[i] {
			if v > top {
				top = v
			}
		}
	}
	top = niceTop(top, f.size)
	p.Top = f.text(top)
	var said []string
	for i, s := range f.of {
		line := Line{Name: f.names[i], Now: unknown}
		if v, ok := l.now(s); ok {
			line.Now = f.text(v)
		}
		line.Path, line.Area = pathsOf(columns[i], top)
		line.Values = valuesOf(columns[i], f.text)
		said = append(said, line.Name+" "+line.Now)
		p.Lines = append(p.Lines, line)
	}
	p.Summary = f.title + " over the " + over.title() + "; now " + strings.Join(said, ", ") + "; the scale ends at " + p.Top
	return p
}

// columnsOf distributes the samples of a series over the columns; a column without samples is NaN.
// A single empty column, which a late sample causes, gets the mean of its neighbours.
func columnsOf(l *lines, s series, now time.Time, over span) []float64 {
	sums, counts := make([]float64, over.columns), make([]int, over.columns)
	sampled := make([]bool, over.columns) // with a sample, although its value may be unknown
	begin := now.Add(-over.of).UnixMilli()
	for i, v := range l.values[s] {
		at := (l.at[i] - begin - 1) * int64(over.columns) / over.of.Milliseconds()
		if at < 0 || at >= int64(over.columns) {
			continue
		}
		sampled[at] = true
		if x := float64(v); !math.IsNaN(x) {
			sums[at] += x
			counts[at]++
		}
	}
	for i, n := range counts {
		sums[i] = ratio(sums[i], float64(n))
	}
	for i := 1; i < len(sums)-1; i++ {
		if !sampled[i] && sampled[i-1] && sampled[i+1] {
			sums[i] = (sums[i-1] + sums[i+1]) / 2
		}
	}
	return sums
}

// niceTop returns the next 1, 2 or 5 times a power of ten; for sizes, in units of powers of 1024.
func niceTop(top float64, size bool) float64 {
	unit := 1.0
	if size {
		for ; top >= 1000*unit; unit *= 1024 {
		}
	}
	base := unit * math.Pow(10, math.Floor(math.Log10(top/unit)))
	for _, n := range []float64{1, 2, 5, 10} {
		if top <= n*base*(1+1e-9) {
			return n * base
		}
	}
	return top
}

// pathsOf draws the columns as a line with gaps for unknown values, and the area below it.
func pathsOf(columns []float64, top float64) (line, area string) {
	var l, a strings.Builder
	bottom := strconv.FormatFloat(plotHeight, 'f', -1, 64)
	y := func(v float64) string {
		return strconv.FormatFloat(math.Round(10*plotHeight*(1-math.Min(v/top, 1)))/10, 'f', -1, 64)
	}
	for i := 0; i < len(columns); {
		if math.IsNaN(columns[i]) {
			i++
			continue
		}
		begin := i
		for ; i < len(columns) && !math.IsNaN(columns[i]); i++ {
			x := strconv.Itoa(i)
			if i == begin {
				l.WriteString("M" + x + " " + y(columns[i]))
				a.WriteString("M" + x + " " + bottom + "V" + y(columns[i]))
				continue
			}
			l.WriteString("L" + x + " " + y(columns[i]))
			a.WriteString("L" + x + " " + y(columns[i]))
		}
		if i == begin+1 {
			l.WriteString("h0") // a dot
		}
		a.WriteString("V" + bottom + "Z")
	}
	return l.String(), a.String()
}

func valuesOf(columns []float64, text func(float64) string) string {
	var b strings.Builder
	for i, v := range columns {
		if i > 0 {
			b.WriteByte('|')
		}
		if !math.IsNaN(v) {
			b.WriteString(text(v))
		}
	}
	return b.String()
}
