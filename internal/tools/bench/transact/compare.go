package transact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/compare"
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
	Load string         `json:"load"`
	Name string         `json:"name"`
	A    compare.Spread `json:"a"`
	// B and the ratio A/B are nil if only one broker was measured.
	B     *compare.Spread `json:"b,omitempty"`
	Ratio *compare.Spread `json:"a_over_b,omitempty"`
}

// Measure runs each load on A and then on B, round by round. It calls each, which may be nil, after
// each run. If ctx ends, the result is of the complete rounds; without one it is an error.
func Measure(ctx context.Context, c Config, each func(round int, side string, r *Run)) (*Result, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if each == nil {
		each = func(int, string, *Run) {}
	}
	result := &Result{Config: c}
	for n := range c.Rounds {
		round, err := measureRound(ctx, c, func(side string, r *Run) { each(n+1, side, r) })
		if ctx.Err() != nil {
			break // an interrupted run is not comparable
		}
		if err != nil {
			return nil, fmt.Errorf("round %d, %w", n+1, err)
		}
		result.Rounds = append(result.Rounds, round)
	}
	if len(result.Rounds) == 0 {
		return nil, fmt.Errorf("no round was completed: %w", context.Cause(ctx))
	}
	result.Figures = figures(result.Rounds)
	return result, nil
}

func measureRound(ctx context.Context, c Config, each func(string, *Run)) (round Round, err error) {
	one := func(s Side, l Load, into *[]*Run) error {
		r, err := measure(ctx, s, c, l)
		if err == nil && r.Transactions == 0 {
			err = fmt.Errorf("%w; failed: %v", bench.ErrNothing, r.Failures)
		}
		if err != nil {
			return fmt.Errorf("%s, load %s: %w", s.Name, l.Name, err)
		}
		*into = append(*into, r)
		each(s.Name, r)
		return nil
	}
	for _, l := range c.loads() {
		if err := one(c.A, l, &round.A); err != nil {
			return round, err
		}
		if c.B == nil {
			continue
		}
		if err := one(*c.B, l, &round.B); err != nil {
			return round, err
		}
	}
	return round, nil
}

// kind is a figure of a run; 0 means that the run has none.
type kind struct {
	name string
	of   func(*Run) float64
}

func kinds() []kind {
	return []kind{
		{"transactions/s", func(r *Run) float64 {
			if r.Load.Plain {
				return 0
			}
			return float64(r.Transactions) / r.Elapsed.Seconds()
		}},
		{"records/s", func(r *Run) float64 { return float64(r.Records) / r.Elapsed.Seconds() }},
		{"transaction p50 ms", func(r *Run) float64 { return r.Whole.P50 / 1000 }},
		{"transaction p99 ms", func(r *Run) float64 { return r.Whole.P99 / 1000 }},
		{"first produce p50 ms", func(r *Run) float64 { return r.First.P50 / 1000 }},
		{"EndTxn p50 ms", func(r *Run) float64 { return r.End.P50 / 1000 }},
		{"end-to-end p50 ms", func(r *Run) float64 { return r.EndToEnd.P50 / 1000 }},
		{"end-to-end p99 ms", func(r *Run) float64 { return r.EndToEnd.P99 / 1000 }},
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
			if slices.Contains(a, 0) || slices.Contains(b, 0) {
				continue
			}
			list = append(list, figureOf(l.Load.Name, k.name, a, b))
		}
	}
	return append(list, shares(rounds)...)
}

// shares returns the rate of the load batch over that of plain: what transactions cost. It is nil
// unless both were measured.
func shares(rounds []Round) []Figure {
	share := func(runs []*Run) float64 {
		var batch, plain float64
		for _, r := range runs {
			switch r.Load.Name {
			case "batch":
				batch = float64(r.Records) / r.Elapsed.Seconds()
			case "plain":
				plain = float64(r.Records) / r.Elapsed.Seconds()
			}
		}
		if plain == 0 {
			return 0
		}
		return 100 * batch / plain
	}
	var a, b []float64
	for _, r := range rounds {
		a = append(a, share(r.A))
		if r.B != nil {
			b = append(b, share(r.B))
		}
	}
	if slices.Contains(a, 0) || slices.Contains(b, 0) {
		return nil
	}
	return []Figure{figureOf("batch", "% of plain", a, b)}
}

// figureOf returns a figure from its value in each round; b is nil if only one broker was measured.
func figureOf(load, name string, a, b []float64) Figure {
	f := Figure{Load: load, Name: name, A: compare.SpreadOf(a)}
	if b != nil {
		sb, ratio := compare.SpreadOf(b), compare.SpreadOf(compare.Over(a, b))
		f.B, f.Ratio = &sb, &ratio
	}
	return f
}

// Text returns a run as one line.
func (r *Run) Text() string {
	text := fmt.Sprintf("%s: %.0f transactions, %.0f records/s, p50 %.3f p99 %.3f ms", r.Load.Name, float64(r.Transactions),
		float64(r.Records)/r.Elapsed.Seconds(), r.Whole.P50/1000, r.Whole.P99/1000)
	for _, failed := range results.Failures(r.Failures) {
		text += "; " + failed
	}
	return text
}

// Table writes the medians as a table.
func (r *Result) Table(w io.Writer) error {
	var b strings.Builder
	c := r.Config
	fmt.Fprintf(&b, "medians of %d rounds (min..max), %v measured after %v of warm-up, %d B per record\n", len(r.Rounds), c.Duration, c.Warmup,
		c.Size)
	if len(r.Rounds) < c.Rounds {
		fmt.Fprintf(&b, "INTERRUPTED after %d of %d rounds\n", len(r.Rounds), c.Rounds)
	}
	for _, l := range c.loads() {
		fmt.Fprintf(&b, "%s: %s\n", l.Name, l.About)
	}
	b.WriteByte('\n')
	t := results.Columns(&b)
	fmt.Fprintf(t, "\t%s\t", c.A.Name)
	if c.B != nil {
		fmt.Fprintf(t, "%s\t%s / %s\t", c.B.Name, c.A.Name, c.B.Name)
	}
	fmt.Fprintln(t)
	for _, f := range r.Figures {
		fmt.Fprintf(t, "%s %s\t%s\t", f.Load, f.Name, f.A)
		if f.B != nil {
			fmt.Fprintf(t, "%s\t%s\t", *f.B, *f.Ratio)
		}
		fmt.Fprintln(t)
	}
	err := t.Flush()
	_, written := io.WriteString(w, b.String())
	return errors.Join(err, written)
}
