package compare

import (
	"strings"

	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Plan describes a comparison.
type Plan struct {
	A Side `json:"a"`
	B Side `json:"b"`
	frame.Schedule
	// Echo adds a bare TCP echo to each round. It needs mode produce and clients own, because it is
	// not comparable with other loads.
	Echo bool `json:"echo"`
}

// Side is one of the two brokers with its load.
type Side struct {
	// Name is its name in reports; "A" or "B" if empty.
	Name   string       `json:"name"`
	Config bench.Config `json:"config"`
}

// complete fills in defaults and checks everything before anything runs.
func (p Plan) complete() (Plan, error) {
	var x settings.Checks
	for _, s := range []struct {
		letter string
		side   *Side
	}{{"A", &p.A}, {"B", &p.B}} {
		c, err := s.side.Config.Complete()
		if err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				x.Add("%s: %s", s.letter, line)
			}
		}
		s.side.Config = c
		if s.side.Name == "" {
			s.side.Name = s.letter
		}
	}
	if p.A.Name == p.B.Name {
		x.Add("--name-a and --name-b: both sides have the name %q; choose different names", p.A.Name)
	}
	p.Schedule.Check(&x)
	for _, c := range []bench.Config{p.A.Config, p.B.Config} {
		if p.Echo && (c.Mode != bench.ModeProduce || c.Clients != bench.ClientsOwn || c.Rate > 0) {
			x.Add("--echo: an echo is only comparable with mode produce, clients own, without a rate; remove it for this load")
			break
		}
	}
	return p, x.Err()
}
