package compare

import (
	"context"
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/bench"
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

// Turn is a run that has ended: Run is set for a side, Echo for the echo.
type Turn struct {
	// Round counts from 1; discarded rounds are counted separately.
	Round     int
	Discarded bool
	Name      string
	Run       *results.Document
	Echo      *limits.EchoResult
}

// Run makes a comparison. It calls each, which may be nil, after each run. If ctx ends, the
// comparison is of the complete rounds; without a complete round it is an error.
func Run(ctx context.Context, p Plan, each func(Turn)) (*Comparison, error) {
	return compare{run: bench.Run, echo: limits.Echo}.all(ctx, p, each)
}

// compare holds the functions that it runs, so that tests can replace them.
type compare struct {
	run  func(context.Context, bench.Config, bench.Progress) (*bench.Result, error)
	echo func(context.Context, limits.EchoConfig) (*limits.EchoResult, error)
}

func (c compare) all(ctx context.Context, p Plan, each func(Turn)) (*Comparison, error) {
	p, err := p.complete()
	if err != nil {
		return nil, err
	}
	if each == nil {
		each = func(Turn) {}
	}
	r := &Comparison{Plan: p}
	for i := range p.Discard + p.Rounds {
		turn := Turn{Round: i - p.Discard + 1}
		if turn.Discarded = i < p.Discard; turn.Discarded {
			turn.Round = i + 1
		}
		if i > 0 && !pause.Wait(ctx.Done(), p.Pause) {
			break
		}
		round, err := c.round(ctx, p, turn, each)
		if ctx.Err() != nil {
			break // an interrupted run is not comparable
		}
		if err != nil {
			return nil, err
		}
		if !turn.Discarded {
			r.Rounds = append(r.Rounds, round)
		}
	}
	if len(r.Rounds) == 0 {
		return nil, fmt.Errorf("no round was completed: %w", context.Cause(ctx))
	}
	r.Measures = measures(r.Rounds)
	return r, nil
}

func (c compare) round(ctx context.Context, p Plan, turn Turn, each func(Turn)) (r Round, err error) {
	for i, s := range []struct {
		side Side
		into *results.Document
	}{{p.A, &r.A}, {p.B, &r.B}} {
		if i > 0 {
			pause.Wait(ctx.Done(), p.Pause)
			if err := ctx.Err(); err != nil {
				return r, err
			}
		}
		if *s.into, err = c.side(ctx, s.side); err != nil {
			return r, fmt.Errorf("round %d, %s: %w", turn.Round, s.side.Name, err)
		}
		turn.Name, turn.Run = s.side.Name, s.into
		each(turn)
	}
	if !p.Echo {
		return r, nil
	}
	pause.Wait(ctx.Done(), p.Pause)
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if r.Echo, err = c.echo(ctx, limits.EchoOf(p.A.Config)); err != nil {
		return r, fmt.Errorf("round %d: %w", turn.Round, err)
	}
	turn.Name, turn.Run, turn.Echo = echoName, nil, r.Echo
	each(turn)
	return r, ctx.Err()
}

// echoName is the name of the echo in reports.
const echoName = "echo"

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
