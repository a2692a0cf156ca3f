// Package frame is the code that the subcommands of chronik-bench share: the command that makes a
// measurement and prints its result as text or JSON, the measured interval, and rounds in which two
// brokers are measured alternately, with the medians and ratios of their figures. The packages of
// the measurements use it. Only complete rounds count, and a measurement in which nothing succeeded
// is an error. It does not know what they measure.
package frame

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Output is the result of a measurement, which is also encoded as JSON. If it has a method
// Succeeded() bool that returns false, nothing succeeded, and the command fails after it has
// printed the result.
type Output interface {
	Table(io.Writer) error
}

// Command returns the subcommand of a measurement, with the flag --json. run makes the measurement,
// and may write lines about its progress. A result that it returns with an error is of what was
// complete before, and printed before the command fails.
func Command[T Output](use, short, long string, run func(ctx context.Context, progress io.Writer) (T, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			progress := &lines{w: cmd.OutOrStdout()}
			if asJSON {
				progress.w = cmd.ErrOrStderr()
			}
			r, err := run(cmd.Context(), progress)
			s, ok := any(r).(interface{ Succeeded() bool })
			var none T
			nothing := any(r) == any(none) || ok && !s.Succeeded()
			switch {
			case err != nil && nothing:
				return err
			case asJSON:
				err = errors.Join(err, results.WriteJSON(cmd.OutOrStdout(), r))
			default:
				if progress.written {
					fmt.Fprintln(progress)
				}
				err = errors.Join(err, r.Table(cmd.OutOrStdout()))
			}
			if nothing {
				err = errors.Join(err, bench.ErrNothing)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&asJSON, "json", false, "print JSON instead of text, and progress on standard error")
	return cmd
}

// lines is a writer that records whether anything was written.
type lines struct {
	w       io.Writer
	written bool
}

func (l *lines) Write(p []byte) (int, error) {
	l.written = true
	return l.w.Write(p)
}

// Parent returns a command that only has subcommands.
func Parent(use, short, long string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(children...)
	return cmd
}

// Interval is the measured time of a load, which follows a warm-up.
type Interval struct {
	Warmup   time.Duration `json:"warmup_ns"`
	Duration time.Duration `json:"duration_ns"`
}

// Bind adds the flags of the interval with their defaults. of describes what is measured in it.
func (i *Interval) Bind(f *pflag.FlagSet, of string, duration, warmup time.Duration) {
	f.DurationVarP(&i.Duration, "duration", "d", duration, "measured time"+of+", "+settings.Positive)
	f.DurationVar(&i.Warmup, "warmup", warmup, "time before the measured time, not counted, "+settings.NotNegative().String())
}

// Check checks the interval.
func (i Interval) Check(x *settings.Checks) {
	x.NotNegative("warmup", i.Warmup)
	x.Positive("duration", i.Duration)
}

// Window returns the window of the interval.
func (i Interval) Window() *meter.Window { return meter.NewWindow(i.Warmup, i.Duration) }
