package frame

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/chronik-io/chronik/internal/tools/bench"
)

// figure is the result of a measurement.
type figure struct{ Count int }

func (f figure) Table(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d counted\n", f.Count)
	return err
}

func (f figure) Succeeded() bool { return f.Count > 0 }

// A command prints its result as text or JSON, and its progress before the text or on standard
// error. A result without a success is also printed, and is an error.
func TestCommand(t *testing.T) {
	for _, c := range []struct {
		count    int
		progress string
		args     []string
		out, err string
	}{
		{3, "", nil, "3 counted\n", ""},
		{3, "one\n", nil, "one\n\n3 counted\n", ""},
		{3, "one\n", []string{"--json"}, "{\n  \"Count\": 3\n}\n", "one\n"},
		{0, "", nil, "0 counted\n", ""},
		{0, "", []string{"--json"}, "{\n  \"Count\": 0\n}\n", ""},
	} {
		cmd := Command("x", "", "", func(_ context.Context, progress io.Writer) (figure, error) {
			if c.progress == "" {
				return figure{c.count}, nil
			}
			_, err := io.WriteString(progress, c.progress)
			return figure{c.count}, err
		})
		var out, errs bytes.Buffer
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(c.args)
		cmd.SetOut(&out)
		cmd.SetErr(&errs)
		if err := cmd.ExecuteContext(t.Context()); errors.Is(err, bench.ErrNothing) != (c.count == 0) || c.count > 0 && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if out.String() != c.out || errs.String() != c.err {
			t.Errorf("%+v: printed %q and %q", c, out.String(), errs.String())
		}
	}
}

// A measurement that fails prints what was complete before, and nothing without that.
func TestCommandThatFails(t *testing.T) {
	failed := errors.New("failed")
	for count, want := range []string{"", "1 counted\n"} {
		cmd := Command("x", "", "", func(context.Context, io.Writer) (figure, error) { return figure{count}, failed })
		var out bytes.Buffer
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetOut(&out)
		cmd.SetArgs(nil)
		if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, failed) || out.String() != want {
			t.Errorf("%v, %q", err, out.String())
		}
	}
}

func TestSpread(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   Spread
	}{{[]float64{3}, Spread{3, 3, 3}}, {[]float64{4, 1}, Spread{2.5, 1, 4}}, {[]float64{9, 1, 2}, Spread{2, 1, 9}}} {
		if got := spreadOf(tc.values); *got != tc.want {
			t.Errorf("%v: %+v, not %+v", tc.values, got, tc.want)
		}
	}
	for v, want := range map[float64]string{82612.7: "82613", 1.3749: "1.37", 0.01234: "0.0123", 12.34: "12.3", 0.999: "0.999"} {
		if got := digits(v); got != want {
			t.Errorf("%g is written %s, not %s", v, got, want)
		}
	}
}
