package sharing

import (
	"context"
	"fmt"
	"io"

	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
)

// Result is the result of a measurement.
type Result struct {
	Config Config `json:"config"`
	frame.Measured[*Run]
}

// Measure measures the loads of c; see frame.MeasureLoads.
func Measure(ctx context.Context, c Config, each func(line string)) (*Result, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	m, err := frame.MeasureLoads(ctx, c.Comparison, Loads(), func(s frame.Side, l Load) (*Run, error) { return measure(ctx, s, c, l) },
		each, figures)
	if m == nil {
		return nil, err
	}
	return &Result{Config: c, Measured: *m}, err
}

// figures returns the medians of the rounds.
func figures(rounds []frame.LoadRound[*Run]) []frame.LoadFigure {
	return frame.LoadFigures(rounds, []frame.Kind[*Run]{
		{Name: "acknowledged/s", Of: func(r *Run) float64 { return float64(r.Records) / r.Elapsed.Seconds() }},
		{Name: "acknowledge p50 ms", Of: func(r *Run) float64 { return r.Acknowledge.P50 / 1000 }},
		{Name: "acknowledge p99 ms", Of: func(r *Run) float64 { return r.Acknowledge.P99 / 1000 }},
		{Name: "delivery p50 ms", Of: func(r *Run) float64 { return r.Delivery.P50 / 1000 }},
		{Name: "delivery p99 ms", Of: func(r *Run) float64 { return r.Delivery.P99 / 1000 }},
		{Name: "server CPU µs each", Of: func(r *Run) float64 { return r.ServerCPU }},
		{Name: "client CPU µs each", Of: func(r *Run) float64 { return r.ClientCPU }},
	})
}

// Title implements frame.Run.
func (r *Run) Title() string { return r.Load.Name }

// Outcome implements frame.Run.
func (r *Run) Outcome() (succeeded int64, failures map[string]int64) { return r.Records, r.Failures }

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
	return frame.LoadTable(w, r.Config.Comparison, Loads(),
		fmt.Sprintf("%d B per record, paced loads %d records/s", r.Config.Size, r.Config.Rate), r.Measured)
}
