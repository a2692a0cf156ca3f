package compare

import (
	"fmt"
	"io"
	"strings"

	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
)

// runText returns a run's result as one line.
func runText(d results.Document) string {
	var flows []string
	for _, f := range d.Flows {
		flows = append(flows, f.Name+"  "+flowText(f))
	}
	return strings.Join(flows, "  ") + cpuText(d.CPU) + failures(d)
}

func flowText(f results.Flow) string {
	l := f.Latency
	return fmt.Sprintf("%.0f/s, p50 %.3f p99 %.3f p99.9 %.3f max %.3f ms",
		f.RecordsPerSecond, l.P50/1000, l.P99/1000, l.P999/1000, l.Max/1000)
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
	p.Heading(&b, len(c.Rounds), "; ratios are computed within a round")
	b.WriteByte('\n')
	if err := frame.Table(&b, p.names(), len(c.Measures), func(i int) (string, frame.Figure) {
		return c.Measures[i].Flow + " " + c.Measures[i].Name, c.Measures[i].Figure
	}); err != nil {
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
