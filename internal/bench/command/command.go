// Package command is the command line of chronik-bench: one run by its root
// command, and the subcommands of the packages beside it.
//
// It promises that the exit status tells scripts the truth: it is 0 only when a
// run succeeded at something in every direction that it measured and, with
// --verify, lost and duplicated nothing; what else went wrong has the codes of
// chronikctl. cmd/chronik-bench is its only caller. It
// must not know how anything is measured or drawn.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/bench"
	"github.com/chronik-io/chronik/internal/bench/compare"
	"github.com/chronik-io/chronik/internal/bench/grouping"
	"github.com/chronik-io/chronik/internal/bench/limits"
	"github.com/chronik-io/chronik/internal/bench/report"
	"github.com/chronik-io/chronik/internal/cli"
)

// ErrLost is a run that has a result, but whose acknowledged records are not all
// there once.
var ErrLost = errors.New("records are lost or duplicated")

// exitCodes is told by --help.
const exitCodes = "Exit codes: 0 it was measured; 1 nothing succeeded, the broker refused, or it was interrupted before anything was measured; 2 the\n" +
	"command line is wrong, nothing was sent; 3 no broker answered; 4 --verify found acknowledged records lost or duplicated."

// Main runs the command line and returns the exit status.
func Main(ctx context.Context, args []string, version string, out, errOut io.Writer) int {
	root := New(version)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			fmt.Fprintf(errOut, "chronik-bench: %s\n", line)
		}
	}
	return cli.ExitCode(err)
}

// outputs say where a result goes besides the table.
type outputs struct {
	json, csv   bool
	hdr, report string
}

// New is the root command.
func New(version string) *cobra.Command {
	config := bench.Default()
	var o outputs
	root := &cobra.Command{
		Use:   "chronik-bench",
		Short: "Measure a broker that speaks the Kafka protocol",
		Long: "chronik-bench measures any Kafka-compatible broker. A success is an answer with error 0 and a valid offset; warm-up is not counted; what\n" +
			"is counted ended inside the measured interval, and that is what is divided by.\n\n" + exitCodes,
		Example: "  chronik-bench -c 128 -d 30s -s 256 --acks all\n" +
			"  chronik-bench --mode e2e --rate 5000 -c 16 --create-topic --verify",
		Version: version, Args: cli.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return measure(cmd, version, config, o)
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	f := root.Flags()
	f.SortFlags = false
	config.Bind(f)
	f.BoolVar(&o.json, "json", false, "print JSON instead of the table")
	f.BoolVar(&o.csv, "csv", false, "print CSV instead of the table: a line for each flow")
	f.StringVar(&o.hdr, "hdr", "", "write the latencies to this file as HdrHistogram's percentile distribution")
	f.StringVar(&o.report, "report", "", "write an HTML page with plots to this file")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text, _ := cli.FlagError(cmd, err)
		return cli.Usage("%s", text)
	})
	root.AddCommand(limits.Command(), limits.EchoServerCommand(), compare.Command(), grouping.Command())
	cli.RejectUnknownHelp(root, cli.NoArgs)
	return root
}

// measure makes one run and shows it.
func measure(cmd *cobra.Command, version string, c bench.Config, o outputs) error {
	if o.json && o.csv {
		return cli.Usage("--json and --csv: choose one")
	}
	c, err := c.Complete()
	if err != nil {
		return err
	}
	for flag, name := range map[string]string{"hdr": o.hdr, "report": o.report} {
		if err := writable(flag, name); err != nil {
			return err // and not after the run
		}
	}
	live := report.NewLive(cmd.ErrOrStderr(), c, cli.IsTerminal(cmd.ErrOrStderr()))
	r, err := bench.Run(cmd.Context(), c, live.Progress)
	live.Done()
	if err != nil {
		return err
	}
	r.Program = version
	return errors.Join(o.show(cmd.OutOrStdout(), r), judge(r))
}

// show prints a result and writes its files.
func (o outputs) show(w io.Writer, r *bench.Result) error {
	form := report.Table
	switch {
	case o.json:
		form = report.JSON
	case o.csv:
		form = report.CSV
	}
	return errors.Join(form(w, r), write(o.hdr, r, report.HDR), write(o.report, r, report.HTML))
}

// writable says whether a file can be made or replaced. No name is no file.
func writable(flag, name string) error {
	if name == "" {
		return nil
	}
	_, err := os.Stat(name)
	made := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return cli.Usage("--%s: the report cannot be written: %w; name a file in a directory that is there and writable", flag, err)
	}
	if err = f.Close(); made {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// write writes one form of a result to a file; no name is no file.
func write(name string, r *bench.Result, form func(io.Writer, *bench.Result) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := errors.Join(form(f, r), f.Close()); err != nil {
		return fmt.Errorf("write the report %s: %w", name, err)
	}
	return nil
}

// judge is the error of a run that has a result and failed all the same.
func judge(r *bench.Result) error {
	var errs []error
	if !r.Succeeded() {
		errs = append(errs, bench.ErrNothing)
	}
	if r.Verify != nil && r.Verify.Bad() {
		return cli.WithCode(cli.ExitUnhealthy, errors.Join(append(errs,
			fmt.Errorf("%w: %d acknowledged and lost, %d duplicated", ErrLost, r.Verify.Lost, r.Verify.Duplicated))...))
	}
	return errors.Join(errs...)
}
