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

	"github.com/chronik-io/chronik/internal/tools/bench"
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

// CheckLoads checks the settings. all are the loads that there are.
func CheckLoads[L Load](x *settings.Checks, c Comparison, all []L) {
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
		x.OneOf("loads", name, names(all)...)
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

// Load is a kind of load.
type Load interface {
	// Title is its name, and Says describes it in a line.
	Title() string
	Says() string
}

// Run is the result of one load on one side.
type Run interface {
	// Title is the load's name, and Text describes the run in a line.
	Title() string
	Text() string
	// Outcome returns how many attempts succeeded, and how often each error occurred.
	Outcome() (succeeded int64, failures map[string]int64)
}

// Measured are the complete rounds of several loads, fewer than planned if the measurement was
// interrupted.
type Measured[R any] struct {
	Rounds []LoadRound[R] `json:"rounds"`
	// Figures are the medians over the rounds.
	Figures []LoadFigure `json:"figures"`
}

// chosen returns those of all loads that are measured.
func chosen[L Load](c Comparison, all []L) []L {
	return slices.DeleteFunc(slices.Clone(all), func(l L) bool { return len(c.Loads) > 0 && !slices.Contains(c.Loads, l.Title()) })
}

func names[L Load](loads []L) (list []string) {
	for _, l := range loads {
		list = append(list, l.Title())
	}
	return list
}

// MeasureLoads runs each load of c on A and then on B, round by round. It calls each, which may be
// nil, with a line of text after each run. If ctx ends, or a load fails, the result is of the
// complete rounds. Without one it is nil. A run in which nothing succeeded is an error. figures
// returns the medians; see LoadFigures.
func MeasureLoads[L Load, R Run](ctx context.Context, c Comparison, all []L, run func(Side, L) (R, error), each func(line string),
	figures func([]LoadRound[R]) []LoadFigure,
) (*Measured[R], error) {
	loads, sides := chosen(c, all), c.Sides()
	rounds, err := Alternate(ctx, c.Schedule, slices.Repeat(Names(sides), len(loads)), func(i int, round *LoadRound[R]) (string, error) {
		load, side := loads[i/len(sides)], i%len(sides)
		r, err := run(sides[side], load)
		if err == nil {
			if n, failures := r.Outcome(); n == 0 {
				err = fmt.Errorf("%w; failed: %v", bench.ErrNothing, failures)
			}
		}
		if err != nil {
			return "", fmt.Errorf("load %s: %w", load.Title(), err)
		}
		into := []*[]R{&round.A, &round.B}[side]
		*into = append(*into, r)
		return r.Text(), nil
	}, each)
	if len(rounds) == 0 {
		return nil, err
	}
	return &Measured[R]{Rounds: rounds, Figures: figures(rounds)}, err
}

// LoadFigures returns the medians of the rounds, of which there is at least one. Loads are in the
// same order in all of them.
func LoadFigures[R Run](rounds []LoadRound[R], kinds []Kind[R]) (list []LoadFigure) {
	for i, r := range rounds[0].A {
		for _, k := range kinds {
			list = append(list, LoadFigureOf(rounds, r.Title(), k.Name, func(runs []R) float64 { return k.Of(runs[i]) })...)
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

// LoadTable writes the medians as a table. of says what was measured; all are the loads that there
// are.
func LoadTable[L Load, R any](w io.Writer, c Comparison, all []L, of string, m Measured[R]) error {
	var b strings.Builder
	c.Heading(&b, len(m.Rounds), fmt.Sprintf(", %v measured after %v of warm-up, %s", c.Duration, c.Warmup, of))
	for _, l := range chosen(c, all) {
		fmt.Fprintln(&b, l.Title()+": "+l.Says())
	}
	b.WriteByte('\n')
	err := Table(&b, Names(c.Sides()), len(m.Figures), func(i int) (string, Figure) {
		return m.Figures[i].Load + " " + m.Figures[i].Name, m.Figures[i].Figure
	})
	_, written := io.WriteString(w, b.String())
	return errors.Join(err, written)
}
