package sharing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
)

// Result is the result of a measurement.
type Result struct {
	Config Config `json:"config"`
	// Rounds are the complete rounds, fewer than planned if the measurement was interrupted.
	Rounds []Round `json:"rounds"`
	// Figures are the medians over the rounds.
	Figures []Figure `json:"figures"`
}

// Round has the runs of both sides, load by load.
type Round struct {
	A []*Run `json:"a"`
	B []*Run `json:"b,omitempty"`
}

// Figure is one figure of one load over all rounds.
type Figure struct {
	Load string `json:"load"`
	frame.Figure
}

// Measure runs each load on A and then on B, round by round. It calls each, which may be nil, with
// a line of text after each run. If ctx ends, the result is of the complete rounds; without one it
// is an error.
func Measure(ctx context.Context, c Config, each func(line string)) (*Result, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	loads, sides := c.loads(), c.sides()
	names := slices.Repeat(frame.Names(sides), len(loads))
	rounds, err := frame.Alternate(ctx, c.Schedule, names, func(i int, round *Round) (string, error) {
		l := loads[i/len(sides)]
		r, err := measure(ctx, sides[i%len(sides)], c, l)
		if err == nil && r.Records == 0 {
			err = fmt.Errorf("%w; failed: %v", bench.ErrNothing, r.Failures)
		}
		if err != nil {
			return "", fmt.Errorf("load %s: %w", l.Name, err)
		}
		into := []*[]*Run{&round.A, &round.B}[i%len(sides)]
		*into = append(*into, r)
		return r.Text(), nil
	}, each)
	if err != nil {
		return nil, err
	}
	return &Result{Config: c, Rounds: rounds, Figures: figures(rounds)}, nil
}

// kind is a figure of a run; 0 means that the run has none.
type kind struct {
	name string
	of   func(*Run) float64
}

func kinds() []kind {
	return []kind{
		{"acknowledged/s", func(r *Run) float64 { return float64(r.Records) / r.Elapsed.Seconds() }},
		{"acknowledge p50 ms", func(r *Run) float64 { return r.Acknowledge.P50 / 1000 }},
		{"acknowledge p99 ms", func(r *Run) float64 { return r.Acknowledge.P99 / 1000 }},
		{"delivery p50 ms", func(r *Run) float64 { return r.Delivery.P50 / 1000 }},
		{"delivery p99 ms", func(r *Run) float64 { return r.Delivery.P99 / 1000 }},
		{"server CPU µs each", func(r *Run) float64 { return r.ServerCPU }},
		{"client CPU µs each", func(r *Run) float64 { return r.ClientCPU }},
	}
}

// figures returns the medians of the rounds, of which there is at least one. Loads are in the same
// order in all of them.
func figures(rounds []Round) (list []Figure) {
	for i, l := range rounds[0].A {
		for _, k := range kinds() {
			var a, b []float64
			for _, r := range rounds {
				a = append(a, k.of(r.A[i]))
				if r.B != nil {
					b = append(b, k.of(r.B[i]))
				}
			}
			if f, ok := frame.FigureOf(k.name, a, b, nil); ok {
				list = append(list, Figure{Load: l.Load.Name, Figure: f})
			}
		}
	}
	return list
}

// Text returns a run as one line.
func (r *Run) Text() string {
	text := fmt.Sprintf("%s: %.0f acknowledged/s by %d members, p50 %.3f p99 %.3f ms", r.Load.Name,
		float64(r.Records)/r.Elapsed.Seconds(), r.Active, r.Acknowledge.P50/1000, r.Acknowledge.P99/1000)
	if r.Load.Paced {
		text += fmt.Sprintf("; delivery p50 %.3f p99 %.3f ms", r.Delivery.P50/1000, r.Delivery.P99/1000)
	}
	for _, failed := range results.Failures(r.Failures) {
		text += "; " + failed
	}
	return text
}

// Table writes the medians as a table.
func (r *Result) Table(w io.Writer) error {
	var b strings.Builder
	c := r.Config
	c.Heading(&b, len(r.Rounds), fmt.Sprintf(", %v measured after %v of warm-up, %d B per record, paced loads %d records/s",
		c.Duration, c.Warmup, c.Size, c.Rate))
	for _, l := range c.loads() {
		fmt.Fprintf(&b, "%s: %s\n", l.Name, l.About())
	}
	b.WriteByte('\n')
	err := frame.Table(&b, frame.Names(c.sides()), len(r.Figures), func(i int) (string, frame.Figure) {
		return r.Figures[i].Load + " " + r.Figures[i].Name, r.Figures[i].Figure
	})
	_, written := io.WriteString(w, b.String())
	return errors.Join(err, written)
}
