package compare

import (
	"context"
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/limits"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
)

// Comparison is the result of a comparison.
type Comparison struct {
	Plan Plan `json:"plan"`
	// Rounds are the counted, complete rounds: fewer than planned if the comparison was
	// interrupted.
	Rounds []Round `json:"rounds"`
	// Measures are the medians over the rounds.
	Measures []Measure `json:"measures"`
}

// Round is one run of each side and, if planned, of the echo.
type Round struct {
	A    results.Document   `json:"a"`
	B    results.Document   `json:"b"`
	Echo *limits.EchoResult `json:"echo,omitempty"`
}

// Run makes a comparison. It calls each, which may be nil, with a line of text after each run. If
// ctx ends, or a run fails, the comparison is of the complete rounds. Without one it is nil.
func Run(ctx context.Context, p Plan, each func(line string)) (*Comparison, error) {
	return compare{run: bench.Run, echo: limits.Echo}.all(ctx, p, each)
}

// compare holds the functions that it runs, so that tests can replace them.
type compare struct {
	run  func(context.Context, bench.Config, bench.Progress) (*bench.Result, error)
	echo func(context.Context, limits.EchoConfig) (*limits.EchoResult, error)
}

func (c compare) all(ctx context.Context, p Plan, each func(line string)) (*Comparison, error) {
	p, err := p.complete()
	if err != nil {
		return nil, err
	}
	r := &Comparison{Plan: p}
	r.Rounds, err = frame.Alternate(ctx, p.Schedule, p.names(), func(i int, r *Round) (text string, err error) {
		if i == 2 {
			if r.Echo, err = c.echo(ctx, limits.EchoOf(p.A.Config)); err != nil {
				return "", err
			}
			return flowText(r.Echo.Flow) + cpuText(r.Echo.Server), nil
		}
		d := []*results.Document{&r.A, &r.B}[i]
		*d, err = c.side(ctx, []Side{p.A, p.B}[i])
		return runText(*d), err
	}, each)
	if len(r.Rounds) == 0 {
		return nil, err
	}
	r.Measures = measures(r.Rounds)
	return r, err
}

// names returns the names of what is measured in each round.
func (p Plan) names() []string {
	if p.Echo {
		return []string{p.A.Name, p.B.Name, "echo"}
	}
	return []string{p.A.Name, p.B.Name}
}

// side makes one run and rejects a run that must not be compared.
func (c compare) side(ctx context.Context, s Side) (results.Document, error) {
	r, err := c.run(ctx, s.Config, nil)
	if err != nil {
		return results.Document{}, err
	}
	if err := ctx.Err(); err != nil {
		return results.Document{}, err
	}
	d := results.Of(r)
	if !r.Succeeded() {
		return d, fmt.Errorf("%w%s", bench.ErrNothing, failures(d))
	}
	if r.Verify != nil && r.Verify.Bad() {
		return d, cli.WithCode(cli.ExitUnhealthy, errors.New(results.VerifyText(r.Verify)))
	}
	for i := range d.Flows {
		d.Flows[i].Series = nil // rounds are short; a single run's report has them
	}
	return d, nil
}

// failures lists the errors of d as the end of a sentence.
func failures(d results.Document) string {
	var text string
	for _, f := range d.Flows {
		for _, failed := range results.Failures(f.Failures) {
			text += "; " + f.Name + " " + failed
		}
	}
	return text
}
