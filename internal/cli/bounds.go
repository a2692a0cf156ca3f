package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Number is what a flag with bounds may hold.
type Number interface {
	int | int16 | int32 | int64 | float64 | time.Duration
}

// Bounds are the values that a flag accepts: all from the least to the most, and perhaps one value
// that has a meaning of its own. Help and refusal are both made of them, so they cannot disagree.
type Bounds[T Number] struct {
	least, most T
	open        bool // most is that of the type, so texts do not name it
	special     T
	meaning     string // of special; empty: there is none
	form        form[T]
}

// form is how a flag's values are written.
type form[T Number] struct {
	kind string // the placeholder that help shows
	like string // what a value must be
	read func(string) (T, error)
	show func(T) string
}

// AtLeast returns the bounds of a flag that accepts least and everything above it.
func AtLeast[T Number](least T) Bounds[T] {
	return Bounds[T]{least: least, most: greatest[T](), open: true, form: formOf[T]()}
}

// Between returns the bounds of a flag that accepts least, most and everything between them.
func Between[T Number](least, most T) Bounds[T] {
	return Bounds[T]{least: least, most: most, form: formOf[T]()}
}

// Or returns bounds that also accept a special value, with its meaning: 0, all.
func (b Bounds[T]) Or(special T, meaning string) Bounds[T] {
	b.special, b.meaning = special, meaning
	return b
}

// In returns bounds whose values are written in another form. kind is the placeholder that help
// shows, and like says what a value must be.
func (b Bounds[T]) In(kind, like string, read func(string) (T, error), show func(T) string) Bounds[T] {
	b.form = form[T]{kind: kind, like: like, read: read, show: show}
	return b
}

// String names the accepted values: "1 to 100", or "at least 1; 0: all".
func (b Bounds[T]) String() string {
	text := b.form.show(b.least) + " to " + b.form.show(b.most)
	if b.open {
		text = "at least " + b.form.show(b.least)
	}
	if b.meaning != "" {
		text += "; " + b.form.show(b.special) + ": " + b.meaning
	}
	return text
}

// Accepts reports whether a value is within the bounds. Not a number is not.
func (b Bounds[T]) Accepts(v T) bool {
	return v >= b.least && v <= b.most || b.meaning != "" && v == b.special
}

// Parse returns the value of a text, or an error that names the bounds.
func (b Bounds[T]) Parse(s string) (T, error) {
	v, err := b.form.read(s)
	switch {
	case errors.Is(err, strconv.ErrRange): // of the type, whose most is the one to name
		b.open = false
		return v, fmt.Errorf("must be %s", b)
	case err != nil:
		return v, fmt.Errorf("must be %s, %s", b.form.like, b)
	case !b.Accepts(v):
		return v, fmt.Errorf("must be %s", b)
	}
	return v, nil
}

// Flag adds a flag for *p to f. Its help is usage, with the bounds after the part that ends at the
// first semicolon. value is what *p is without the flag. It may be out of bounds, to stand for a
// flag that was not given: then help shows no default.
func (b Bounds[T]) Flag(f *pflag.FlagSet, p *T, name, shorthand string, value T, usage string) {
	*p = value
	what, more, _ := strings.Cut(usage, "; ")
	flag := f.VarPF(&bounded[T]{b, p}, name, shorthand, strings.TrimSuffix(what+", "+b.String()+"; "+more, "; "))
	if !b.Accepts(value) {
		flag.DefValue = ""
	}
}

// bounded is the value of a flag that has bounds.
type bounded[T Number] struct {
	Bounds[T]
	at *T
}

// String formats the value. It is empty for the zero bounded, with which pflag compares defaults.
func (v *bounded[T]) String() string {
	if v.at == nil {
		return ""
	}
	return v.form.show(*v.at)
}

// Set takes a value from the command line.
func (v *bounded[T]) Set(s string) error {
	n, err := v.Parse(s)
	if err == nil {
		*v.at = n
	}
	return err
}

// Type returns the placeholder that --help shows.
func (v *bounded[T]) Type() string { return v.form.kind }

// greatest returns the largest value of a type.
func greatest[T Number]() T {
	var zero T
	most := int64(math.MaxInt64)
	switch any(zero).(type) {
	case float64:
		f := math.MaxFloat64
		return T(f)
	case int16:
		most = math.MaxInt16
	case int32:
		most = math.MaxInt32
	case int:
		most = math.MaxInt
	}
	return T(most)
}

// formOf returns how values of a type are written, if nothing else was said.
func formOf[T Number]() form[T] {
	var zero T
	switch any(zero).(type) {
	case time.Duration:
		return form[T]{kind: "duration", like: `a duration like "500ms", "30s" or "2d"`,
			read: func(s string) (T, error) { d, err := duration(s); return T(d), err },
			show: func(v T) string { return short(time.Duration(v)) }}
	case float64:
		return form[T]{kind: "float", like: "a number",
			read: func(s string) (T, error) { n, err := strconv.ParseFloat(s, 64); return T(n), err },
			show: func(v T) string { return strconv.FormatFloat(float64(v), 'f', -1, 64) }}
	}
	return form[T]{kind: "int", like: "an integer",
		read: func(s string) (T, error) {
			n, err := strconv.ParseInt(s, 0, 64)
			if err == nil && int64(T(n)) != n {
				err = strconv.ErrRange
			}
			return T(n), err
		},
		show: func(v T) string { return strconv.FormatInt(int64(v), 10) }}
}

// duration parses a duration, also in days, and also a negative one: the bounds decide.
func duration(s string) (time.Duration, error) {
	if d, ok := Duration(s); ok {
		return d, nil
	}
	return time.ParseDuration(s)
}

// Duration parses a non-negative duration, also in days: 7d.
func Duration(s string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err == nil
	}
	d, err := time.ParseDuration(s)
	// A number without a unit is an offset, even 0.
	return d, err == nil && d >= 0 && s != "0" && s[0] != '+' && s[0] != '-'
}

// short formats a duration without units that are zero: 1m for 1m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
