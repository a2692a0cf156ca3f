package sharing

import (
	"context"
	"fmt"
	"io"

	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
)

// Result is the result of a measurement.
type Result struct {
	Config Config `json:"config"`
	// Rounds are the complete rounds, fewer than planned if the measurement was interrupted.
	Rounds []frame.LoadRound[*Run] `json:"rounds"`
	// Figures are the medians over the rounds.
	Figures []frame.LoadFigure `json:"figures"`
}

// Measure runs each load on A and then on B, round by round. It calls each, which may be nil, with
// a line of text after each run. If ctx ends, or a load fails, the result is of the complete
// rounds. Without one it is nil.
func Measure(ctx context.Context, c Config, each func(line string)) (*Result, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	loads := c.loads()
	rounds, err := frame.RunLoads(ctx, c.Comparison, names(loads), func(i int, s frame.Side) (*Run, error) {
		r, err := measure(ctx, s, c, loads[i])
		switch {
		case err != nil:
			return nil, err
		case r.Records == 0:
			return nil, fmt.Errorf("%w; failed: %v", bench.ErrNothing, r.Failures)
		}
		return r, nil
	}, each)
	if len(rounds) == 0 {
		return nil, err
	}
	return &Result{Config: c, Rounds: rounds, Figures: frame.LoadFigures(rounds, func(r *Run) string { return r.Load.Name }, kinds())}, err
}

// kinds are the figures of a run.
func kinds() []frame.Kind[*Run] {
	return []frame.Kind[*Run]{
		{Name: "acknowledged/s", Of: func(r *Run) float64 { return float64(r.Records) / r.Elapsed.Seconds() }},
		{Name: "acknowledge p50 ms", Of: func(r *Run) float64 { return r.Acknowledge.P50 / 1000 }},
		{Name: "acknowledge p99 ms", Of: func(r *Run) float64 { return r.Acknowledge.P99 / 1000 }},
		{Name: "delivery p50 ms", Of: func(r *Run) float64 { return r.Delivery.P50 / 1000 }},
		{Name: "delivery p99 ms", Of: func(r *Run) float64 { return r.Delivery.P99 / 1000 }},
		{Name: "server CPU µs each", Of: func(r *Run) float64 { return r.ServerCPU }},
		{Name: "client CPU µs each", Of: func(r *Run) float64 { return r.ClientCPU }},
	}
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
	c := r.Config
	var about []string
	for _, l := range c.loads() {
		about = append(about, l.Name+": "+l.About())
	}
	return c.TableOf(w, len(r.Rounds), fmt.Sprintf("%d B per record, paced loads %d records/s", c.Size, c.Rate), about, r.Figures)
}
