package transact

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

// figures returns the medians of the rounds, and what transactions cost.
func figures(rounds []frame.LoadRound[*Run]) []frame.LoadFigure {
	return append(frame.LoadFigures(rounds, []frame.Kind[*Run]{
		{Name: "transactions/s", Of: func(r *Run) float64 {
			if r.Load.Plain {
				return 0
			}
			return float64(r.Transactions) / r.Elapsed.Seconds()
		}},
		{Name: "records/s", Of: func(r *Run) float64 { return float64(r.Records) / r.Elapsed.Seconds() }},
		{Name: "transaction p50 ms", Of: func(r *Run) float64 { return r.Whole.P50 / 1000 }},
		{Name: "transaction p99 ms", Of: func(r *Run) float64 { return r.Whole.P99 / 1000 }},
		{Name: "first produce p50 ms", Of: func(r *Run) float64 { return r.First.P50 / 1000 }},
		{Name: "EndTxn p50 ms", Of: func(r *Run) float64 { return r.End.P50 / 1000 }},
		{Name: "end-to-end p50 ms", Of: func(r *Run) float64 { return r.EndToEnd.P50 / 1000 }},
		{Name: "end-to-end p99 ms", Of: func(r *Run) float64 { return r.EndToEnd.P99 / 1000 }},
		{Name: "server CPU µs each", Of: func(r *Run) float64 { return r.ServerCPU }},
		{Name: "client CPU µs each", Of: func(r *Run) float64 { return r.ClientCPU }},
	}), frame.LoadFigureOf(rounds, "batch", "% of plain", share)...)
}

// share returns the rate of the load batch as a percentage of that of plain: what transactions
// cost. It is 0 unless both were measured.
func share(runs []*Run) float64 {
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

// Title implements frame.Run.
func (r *Run) Title() string { return r.Load.Name }

// Outcome implements frame.Run.
func (r *Run) Outcome() (succeeded int64, failures map[string]int64) {
	return r.Transactions, r.Failures
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
	return frame.LoadTable(w, r.Config.Comparison, Loads(), fmt.Sprintf("%d B per record", r.Config.Size), r.Measured)
}
