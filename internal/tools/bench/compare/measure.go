package compare

import (
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
)

// Measure is one figure of a flow over all rounds.
type Measure struct {
	// Flow is produce, consume or end-to-end.
	Flow string `json:"flow"`
	frame.Figure
}

// figure is a figure that can be compared; 0 means that it is unknown.
type figure struct {
	name string
	of   func(results.Flow, *results.CPU) float64
}

func figures() []figure {
	latency := func(name string, of func(results.Latency) float64) figure {
		return figure{name + " ms", func(f results.Flow, _ *results.CPU) float64 { return of(f.Latency) / 1000 }}
	}
	return []figure{
		{"records/s", func(f results.Flow, _ *results.CPU) float64 { return f.RecordsPerSecond }},
		{"payload MB/s", func(f results.Flow, _ *results.CPU) float64 { return f.PayloadPerSecond / 1e6 }},
		latency("p50", func(l results.Latency) float64 { return l.P50 }),
		latency("p90", func(l results.Latency) float64 { return l.P90 }),
		latency("p95", func(l results.Latency) float64 { return l.P95 }),
		latency("p99", func(l results.Latency) float64 { return l.P99 }),
		latency("p99.9", func(l results.Latency) float64 { return l.P999 }),
		latency("max", func(l results.Latency) float64 { return l.Max }),
		{"server CPU us", func(_ results.Flow, c *results.CPU) float64 {
			if c == nil {
				return 0
			}
			return c.PerRequest
		}},
	}
}

// measures compares each flow of both sides, by each figure that both have in every round.
func measures(rounds []Round) []Measure {
	var list []Measure
	for i, f := range rounds[0].A.Flows {
		if rounds[0].B.Flow(f.Name) == nil {
			continue
		}
		for _, by := range figures() {
			if by.cpu() && i > 0 {
				continue // it is of the whole run, and is listed with the first flow
			}
			if m, ok := measure(rounds, f.Name, by); ok {
				list = append(list, m)
			}
		}
	}
	return list
}

func (f figure) cpu() bool { return f.of(results.Flow{}, &results.CPU{PerRequest: 1}) > 0 }

func measure(rounds []Round, flow string, by figure) (Measure, bool) {
	var a, b, echo []float64
	for _, r := range rounds {
		fa, fb := r.A.Flow(flow), r.B.Flow(flow)
		if fa == nil || fb == nil {
			return Measure{}, false
		}
		a, b = append(a, by.of(*fa, r.A.CPU)), append(b, by.of(*fb, r.B.CPU))
		if r.Echo != nil {
			echo = append(echo, by.of(r.Echo.Flow, r.Echo.Server))
		}
	}
	f, ok := frame.FigureOf(by.name, a, b, echo)
	return Measure{Flow: flow, Figure: f}, ok
}
