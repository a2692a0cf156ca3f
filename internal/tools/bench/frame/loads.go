package frame

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Comparison is the part of a configuration that the measurements of several loads share: the
// brokers, the loads, and the rounds.
type Comparison struct {
	A Side `json:"a"`
	// B is nil if only one broker is measured.
	B *Side `json:"b,omitempty"`
	// Loads are the names of loads; all of them if empty.
	Loads []string `json:"loads"`
	Schedule
	Interval
}

// Bind adds the flags. b is side B, if the command gets its brokers (see Begin). each names the
// work that the processor time is divided by, and names are the loads in words.
func (c *Comparison) Bind(f *pflag.FlagSet, b *Side, each, names string) {
	BindSides(f, &c.A, b, each, "; without it only A is measured")
	f.StringSliceVar(&c.Loads, "loads", nil, "names of loads: "+names+" (default all)")
	c.Schedule.Bind(f, 3)
	c.Interval.Bind(f, " of each load", 5*time.Second, time.Second)
}

// Begin takes side B if it has brokers.
func (c *Comparison) Begin(b *Side) {
	if b.Brokers != nil {
		c.B = b
	}
}

// Sides returns the brokers that are measured.
func (c Comparison) Sides() []Side {
	if c.B == nil {
		return []Side{c.A}
	}
	return []Side{c.A, *c.B}
}

// Has reports whether a load is measured.
func (c Comparison) Has(load string) bool { return len(c.Loads) == 0 || slices.Contains(c.Loads, load) }

// Check checks the settings. loads are the names of all loads.
func (c Comparison) Check(x *settings.Checks, loads []string) {
	side := func(flag string, s Side) {
		x.Brokers(flag, s.Brokers...)
		if s.PID == 0 {
			return
		}
		if _, err := meter.ProcessCPU(s.PID); err != nil {
			x.Add("--pid-%s: the processor time of process %d can't be read; name the broker's process on this machine, or remove it",
				flag, s.PID)
		}
	}
	side("a", c.A)
	if c.B != nil {
		side("b", *c.B)
		if c.A.Name == c.B.Name {
			x.Add("--name-b: both sides are named %q; choose different names", c.A.Name)
		}
	}
	for _, name := range c.Loads {
		x.OneOf("loads", name, loads...)
	}
	c.Schedule.Check(x)
	c.Interval.Check(x)
}

// LoadRound has the runs of both sides, load by load.
type LoadRound[R any] struct {
	A []R `json:"a"`
	B []R `json:"b,omitempty"`
}

// LoadFigure is one figure of one load over all rounds.
type LoadFigure struct {
	Load string `json:"load"`
	Figure
}

// Kind is a figure of a run; 0 means that the run has none.
type Kind[R any] struct {
	Name string
	Of   func(R) float64
}

// RunLoads runs each load on A and then on B, round by round. run makes the run of a load, by its
// number in loads; Text describes it in a line. The rest is as in Alternate.
func RunLoads[R interface{ Text() string }](ctx context.Context, c Comparison, loads []string,
	run func(load int, s Side) (R, error), each func(line string),
) ([]LoadRound[R], error) {
	sides := c.Sides()
	return Alternate(ctx, c.Schedule, slices.Repeat(Names(sides), len(loads)), func(i int, round *LoadRound[R]) (string, error) {
		load, side := i/len(sides), i%len(sides)
		r, err := run(load, sides[side])
		if err != nil {
			return "", fmt.Errorf("load %s: %w", loads[load], err)
		}
		into := []*[]R{&round.A, &round.B}[side]
		*into = append(*into, r)
		return r.Text(), nil
	}, each)
}

// LoadFigures returns the medians of the rounds, of which there is at least one. Loads are in the
// same order in all of them; name returns that of a run.
func LoadFigures[R any](rounds []LoadRound[R], name func(R) string, kinds []Kind[R]) (list []LoadFigure) {
	for i, r := range rounds[0].A {
		for _, k := range kinds {
			list = append(list, LoadFigureOf(rounds, name(r), k.Name, func(runs []R) float64 { return k.Of(runs[i]) })...)
		}
	}
	return list
}

// LoadFigureOf returns a figure from its value in each round, or nothing unless every run has one.
func LoadFigureOf[R any](rounds []LoadRound[R], load, name string, of func([]R) float64) []LoadFigure {
	var a, b []float64
	for _, r := range rounds {
		a = append(a, of(r.A))
		if r.B != nil {
			b = append(b, of(r.B))
		}
	}
	f, ok := FigureOf(name, a, b, nil)
	if !ok {
		return nil
	}
	return []LoadFigure{{Load: load, Figure: f}}
}

// TableOf writes figures of so many complete rounds as a table. of says what was measured, and
// loads are lines about the loads.
func (c Comparison) TableOf(w io.Writer, complete int, of string, loads []string, figures []LoadFigure) error {
	var b strings.Builder
	c.Heading(&b, complete, fmt.Sprintf(", %v measured after %v of warm-up, %s", c.Duration, c.Warmup, of))
	for _, line := range loads {
		fmt.Fprintln(&b, line)
	}
	b.WriteByte('\n')
	err := Table(&b, Names(c.Sides()), len(figures), func(i int) (string, Figure) {
		return figures[i].Load + " " + figures[i].Name, figures[i].Figure
	})
	_, written := io.WriteString(w, b.String())
	return errors.Join(err, written)
}
