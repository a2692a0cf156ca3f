package compare

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/chronik-io/chronik/internal/tools/bench/results"
)

// Text returns a run as one line.
func (t Turn) Text() string {
	head := fmt.Sprintf("round %d", t.Round)
	if t.Discarded {
		head = fmt.Sprintf("discarded round %d", t.Round)
	}
	head += "  " + t.Name
	if t.Echo != nil {
		return head + flowText(t.Echo.Flow) + cpuText(t.Echo.Server)
	}
	for _, f := range t.Run.Flows {
		head += "  " + f.Name + flowText(f)
	}
	return head + cpuText(t.Run.CPU) + failures(*t.Run)
}

func flowText(f results.Flow) string {
	l := f.Latency
	return fmt.Sprintf(
		"  %.0f/s, p50 %.3f p99 %.3f p99.9 %.3f max %.3f ms",
		f.RecordsPerSecond,
		l.P50/1000,
		l.P99/1000,
		l.P999/1000,
		l.Max/1000,
	)
}

func cpuText(c *results.CPU) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf(", server CPU %.2f us", c.PerRequest)
}

// Table writes the medians as a table.
func (c *Comparison) Table(w io.Writer) error {
	var b strings.Builder
	p := c.Plan
	for _, s := range []Side{p.A, p.B} {
		fmt.Fprintf(
			&b,
			"%s: clients %s\n   %s, %v measured after %v of warm-up\n",
			s.Name,
			results.ClientsText(s.Config),
			results.LoadText(s.Config),
			s.Config.Duration,
			s.Config.Warmup,
		)
	}
	fmt.Fprintf(&b, "medians of %d rounds (min..max); ratios are computed within a round\n", len(c.Rounds))
	if len(c.Rounds) < p.Rounds {
		fmt.Fprintf(&b, "INTERRUPTED after %d of %d rounds\n", len(c.Rounds), p.Rounds)
	}
	b.WriteByte('\n')
	t := results.Columns(&b)
	fmt.Fprintf(t, "\t%s\t%s\t%s / %s\t", p.A.Name, p.B.Name, p.A.Name, p.B.Name)
	if p.Echo {
		fmt.Fprintf(t, "%s\t%s / %s\t%s / %s\t", echoName, p.A.Name, echoName, p.B.Name, echoName)
	}
	fmt.Fprintln(t)
	for _, m := range c.Measures {
		fmt.Fprintf(t, "%s %s\t%s\t%s\t%s\t", m.Flow, m.Name, m.A, m.B, m.Ratio)
		if p.Echo && m.Echo != nil {
			fmt.Fprintf(t, "%s\t%s\t%s\t", m.Echo, m.AEcho, m.BEcho)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i, r := range c.Rounds {
		for _, s := range []struct {
			name string
			run  results.Document
		}{{p.A.Name, r.A}, {p.B.Name, r.B}} {
			if text := failures(s.run); text != "" {
				fmt.Fprintf(&b, "round %d, %s%s\n", i+1, s.name, text)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// String returns the median, minimum and maximum with three digits or as many as a whole number
// has.
func (s Spread) String() string {
	return fmt.Sprintf("%s (%s..%s)", digits(s.Median), digits(s.Min), digits(s.Max))
}

func digits(v float64) string {
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", min(max(decimals, 0), 6), v)
}
