package frame

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/chronik-io/chronik/internal/tools/bench/results"
)

// Spread is a median with the minimum and the maximum of the same values.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spreadOf returns the spread of values, nil without values; the median of an even number is the
// mean of the middle two.
func spreadOf(values []float64) *Spread {
	if len(values) == 0 {
		return nil
	}
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return &Spread{Median: (s[(n-1)/2] + s[n/2]) / 2, Min: s[0], Max: s[n-1]}
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

// Figure is one figure over all rounds. Ratios are computed within a round.
type Figure struct {
	// Name is the figure's name with its unit.
	Name string  `json:"name"`
	A    *Spread `json:"a"`
	// B and the ratio A/B are nil if only one side was measured.
	B     *Spread `json:"b,omitempty"`
	Ratio *Spread `json:"a_over_b,omitempty"`
	// Echo and the ratios to it are nil without an echo.
	Echo  *Spread `json:"echo,omitempty"`
	AEcho *Spread `json:"a_over_echo,omitempty"`
	BEcho *Spread `json:"b_over_echo,omitempty"`
}

// FigureOf returns a figure from its values in each round; b is nil without a second side. ok is
// false unless all values of both sides are above zero. An echo without a value above zero for each
// round is left out.
func FigureOf(name string, a, b, echo []float64) (f Figure, ok bool) {
	if !positive(a) || !positive(b) {
		return f, false
	}
	f = Figure{Name: name, A: spreadOf(a), B: spreadOf(b), Ratio: spreadOf(over(a, b))}
	if len(echo) == len(a) && positive(echo) {
		f.Echo, f.AEcho, f.BEcho = spreadOf(echo), spreadOf(over(a, echo)), spreadOf(over(b, echo))
	}
	return f, true
}

func positive(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return !(v > 0) })
}

// over divides pairwise; it returns nothing if b has no values.
func over(a, b []float64) (out []float64) {
	for i := range min(len(a), len(b)) {
		out = append(out, a[i]/b[i])
	}
	return out
}

// Table writes a line for each of n figures, which row returns with their labels. sides are the
// names of A, of B if there is one, and of the echo if there is one.
func Table(w io.Writer, sides []string, n int, row func(i int) (label string, f Figure)) error {
	t := results.Columns(w)
	for i, name := range sides {
		fmt.Fprintf(t, "\t%s", name)
		for _, first := range sides[:i] {
			fmt.Fprintf(t, "\t%s / %s", first, name)
		}
	}
	fmt.Fprintln(t, "\t")
	for i := range n {
		label, f := row(i)
		fmt.Fprint(t, label)
		for _, s := range []*Spread{f.A, f.B, f.Ratio, f.Echo, f.AEcho, f.BEcho} {
			if s != nil {
				fmt.Fprintf(t, "\t%s", s)
			}
		}
		fmt.Fprintln(t, "\t")
	}
	return t.Flush()
}
