package compare

import (
	"slices"

	"github.com/chronik-io/chronik/internal/tools/bench/results"
)

// Spread is a median with the minimum and the maximum of the same values.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Measure is one figure over all rounds. Ratios are computed within each round.
type Measure struct {
	// Flow is produce, consume or end-to-end.
	Flow string `json:"flow"`
	// Name is the figure's name with its unit.
	Name string `json:"name"`
	A    Spread `json:"a"`
	B    Spread `json:"b"`
	// Ratio is A/B.
	Ratio Spread `json:"a_over_b"`
	// Echo and the ratios to it are nil without an echo.
	Echo  *Spread `json:"echo,omitempty"`
	AEcho *Spread `json:"a_over_echo,omitempty"`
	BEcho *Spread `json:"b_over_echo,omitempty"`
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
	if !positive(a) || !positive(b) {
		return Measure{}, false
	}
	m := Measure{Flow: flow, Name: by.name, A: SpreadOf(a), B: SpreadOf(b), Ratio: SpreadOf(Over(a, b))}
	if len(echo) == len(rounds) && positive(echo) {
		e, ae, be := SpreadOf(echo), SpreadOf(Over(a, echo)), SpreadOf(Over(b, echo))
		m.Echo, m.AEcho, m.BEcho = &e, &ae, &be
	}
	return m, true
}

func positive(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return !(v > 0) })
}

// Over divides pairwise.
func Over(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / b[i]
	}
	return out
}

// SpreadOf returns the spread of at least one value; the median of an even number is the mean of
// the middle two.
func SpreadOf(values []float64) Spread {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return Spread{Median: (s[(n-1)/2] + s[n/2]) / 2, Min: s[0], Max: s[n-1]}
}
