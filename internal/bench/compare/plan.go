package compare

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/bench"
	"github.com/chronik-io/chronik/internal/cli"
)

// Bounds of a plan.
const (
	MaxRounds = 1000
	maxPause  = time.Hour
)

// Plan is what to compare and how often.
type Plan struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// Rounds are counted, 1 to MaxRounds; Discard rounds before them are not: a
	// broker that compiles as it goes is slower in its first.
	Rounds  int `json:"rounds"`
	Discard int `json:"discard"`
	// Echo adds a bare TCP echo to each round. It needs mode produce and clients
	// own: of another load it says nothing.
	Echo bool `json:"echo"`
	// Pause lies between two runs.
	Pause time.Duration `json:"pause_ns"`
}

// Side is one of the two.
type Side struct {
	// Name is how reports call it, "A" where it is empty.
	Name   string       `json:"name"`
	Config bench.Config `json:"config"`
}

// complete fills in defaults and checks everything before anything runs.
func (p Plan) complete() (Plan, error) {
	var errs []error
	for _, s := range []struct {
		letter string
		side   *Side
	}{{"A", &p.A}, {"B", &p.B}} {
		c, err := s.side.Config.Complete()
		if err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				errs = append(errs, fmt.Errorf("%s: %s", s.letter, line))
			}
		}
		s.side.Config = c
		if s.side.Name == "" {
			s.side.Name = s.letter
		}
	}
	if p.A.Name == p.B.Name {
		errs = append(errs, fmt.Errorf("--name-a and --name-b: both sides have the name %q; give each its own", p.A.Name))
	}
	if p.Rounds < 1 || p.Rounds > MaxRounds {
		errs = append(errs, fmt.Errorf("--rounds: %d is not within 1 and %d", p.Rounds, MaxRounds))
	}
	if p.Discard < 0 || p.Discard > MaxRounds {
		errs = append(errs, fmt.Errorf("--discard: %d is not within 0 and %d", p.Discard, MaxRounds))
	}
	if p.Pause < 0 || p.Pause > maxPause {
		errs = append(errs, fmt.Errorf("--pause: %v is not within 0s and %v", p.Pause, maxPause))
	}
	for _, c := range []bench.Config{p.A.Config, p.B.Config} {
		if p.Echo && (c.Mode != bench.ModeProduce || c.Clients != bench.ClientsOwn || c.Rate > 0) {
			errs = append(errs, errors.New("--echo: an echo compares with mode produce, clients own, without a rate; leave it out for this load"))
			break
		}
	}
	return p, cli.WithCode(cli.ExitUsage, errors.Join(errs...))
}
