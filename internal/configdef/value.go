package configdef

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Error is a refused config or value. Its text is Kafka's if Kafka has one.
type Error struct {
	Config string // the config's name; empty if there are several
	Msg    string
}

func (e *Error) Error() string { return e.Msg }

// value is a parsed value: the field for its type is set.
type value struct {
	n    int64
	f    float64
	b    bool
	s    string
	list []string
	gaps bool // the list had empty entries
}

// Canonical returns a value as Kafka prints it: trimmed, with true and false in lower case, numbers
// without a plus sign, lists without blanks or duplicates. It returns an invalid value unchanged.
func (d *Def) Canonical(raw string) string {
	v, err := d.parse(raw)
	if err != nil {
		return raw
	}
	return d.format(v)
}

func (d *Def) format(v value) string {
	switch d.Type {
	case Boolean:
		return strconv.FormatBool(v.b)
	case Int, Short, Long:
		return strconv.FormatInt(v.n, 10)
	case Double:
		return formatDouble(v.f)
	case List:
		return strings.Join(v.list, ",")
	}
	return v.s
}

// Check parses a value and checks it against the config's bounds. The error is an *Error.
func (d *Def) Check(raw string) error {
	v, err := d.parse(raw)
	if err != nil {
		return err
	}
	for _, c := range d.checks {
		if err := c(d, v); err != nil {
			return err
		}
	}
	return nil
}

func (d *Def) invalid(raw, msg string) error {
	return &Error{d.Name, fmt.Sprintf("Invalid value %s for configuration %s: %s", raw, d.Name, msg)}
}

func (d *Def) parse(raw string) (value, error) {
	s := strings.TrimSpace(raw)
	bits := 64
	switch d.Type {
	case Boolean:
		if strings.EqualFold(s, "true") || strings.EqualFold(s, "false") {
			return value{b: strings.EqualFold(s, "true")}, nil
		}
		return value{}, d.invalid(raw, "Expected value to be either true or false")
	case Double:
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(f) {
			return value{}, d.invalid(raw, "Not a number of type DOUBLE")
		}
		return value{f: f}, nil
	case List:
		list, gaps := splitList(s)
		return value{list: list, gaps: gaps}, nil
	case Int:
		bits = 32
	case Short:
		bits = 16
	case Long:
	default:
		return value{s: s}, nil
	}
	n, err := strconv.ParseInt(s, 10, bits)
	if err != nil {
		return value{}, d.invalid(raw, "Not a number of type "+d.Type.String())
	}
	return value{n: n}, nil
}

// formatDouble formats a number as Java does: with a point, and with an exponent if it is very
// small or very large.
func formatDouble(f float64) string {
	if size := math.Abs(f); size == 0 || size >= 1e-3 && size < 1e7 {
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	digits, exponent, ok := strings.Cut(strconv.FormatFloat(f, 'E', -1, 64), "E")
	if !ok {
		return digits // infinite
	}
	if !strings.Contains(digits, ".") {
		digits += ".0"
	}
	sign := ""
	if exponent[0] == '-' {
		sign = "-"
	}
	return digits + "E" + sign + strings.TrimLeft(exponent[1:], "0")
}

// splitList splits a comma-separated list and removes empty entries and duplicates; gaps reports
// whether it had empty entries next to a comma.
func splitList(s string) (list []string, gaps bool) {
	seen := map[string]bool{}
	for e := range strings.SplitSeq(s, ",") {
		if e = strings.TrimSpace(e); e == "" {
			gaps = s != ""
		} else if !seen[e] {
			seen[e] = true
			list = append(list, e)
		}
	}
	return list, gaps
}

func atLeast(low int64) option { return between(low, math.MaxInt64) }

// between bounds a number, inclusive.
func between(low, high int64) option {
	words := fmt.Sprintf("%d to %d", low, high)
	if high == math.MaxInt64 {
		words = fmt.Sprintf("at least %d", low)
	}
	return bounded(words, func(d *Def, v value) error {
		switch {
		case v.n < low:
			return d.invalid(d.format(v), fmt.Sprintf("Value must be at least %d", low))
		case v.n > high:
			return d.invalid(d.format(v), fmt.Sprintf("Value must be no more than %d", high))
		}
		return nil
	})
}

// fraction bounds a double to 0..1.
func fraction() option {
	return bounded("0 to 1", func(d *Def, v value) error {
		switch {
		case v.f < 0:
			return d.invalid(d.format(v), "Value must be at least 0")
		case v.f > 1:
			return d.invalid(d.format(v), "Value must be no more than 1")
		}
		return nil
	})
}

// oneOf lists the valid values of a string or list entry.
func oneOf(allowed ...string) option {
	return bounded("one of "+strings.Join(allowed, ", "), func(d *Def, v value) error {
		entries := v.list
		if d.Type != List {
			entries = []string{v.s}
		}
		for _, e := range entries {
			if !slices.Contains(allowed, e) {
				return d.invalid(e, "String must be one of: "+strings.Join(allowed, ", "))
			}
		}
		return nil
	})
}
