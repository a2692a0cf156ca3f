// Package command is the command line of chronik-bench: its root command makes one run, and the
// other packages of bench add subcommands.
//
// It promises that scripts can rely on the exit status: it is 0 only if a run had successes in
// every direction that it measured and, with --verify, lost and duplicated nothing. Other outcomes
// have the codes of chronikctl. cmd/chronik-bench is its only caller. It does not know how anything
// is measured or drawn.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/compare"
	"github.com/chronik-io/chronik/internal/tools/bench/connections"
	"github.com/chronik-io/chronik/internal/tools/bench/grouping"
	"github.com/chronik-io/chronik/internal/tools/bench/limits"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
	"github.com/chronik-io/chronik/internal/tools/bench/sharing"
	"github.com/chronik-io/chronik/internal/tools/bench/transact"
)

// ErrLost is returned if a run has a result, but acknowledged records are lost or duplicated.
var ErrLost = errors.New("records are lost or duplicated")

// exitCodes is the section of --help about exit codes.
const exitCodes = "Exit codes: 0 it was measured; 1 nothing succeeded, the broker refused, or it was interrupted before anything was measured; 2 the\n" +
	"command line is wrong, nothing was sent; 3 no broker answered; 4 --verify found acknowledged records lost or duplicated."

// Main runs the command line and returns the exit status.
func Main(ctx context.Context, args []string, version string, out, errOut io.Writer) int {
	root := New(cli.Version(version))
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

// New returns the root command.
func New(version string) *cobra.Command {
	config := bench.Default()
	var asJSON bool
	root := &cobra.Command{
		Use:   "chronik-bench",
		Short: "Measure a broker that speaks the Kafka protocol",
		Long: "chronik-bench measures any Kafka-compatible broker. A success is a response with error 0 and a valid offset. Only outcomes that ended in\n" +
			"the measured interval, which follows the warm-up, are counted, and rates are divided by exactly this interval.\n\n" +
			exitCodes,
		Example: "  chronik-bench -c 128 -d 30s -s 256 --acks all\n" +
			"  chronik-bench --mode e2e --rate 5000 -c 16 --create-topic --verify",
		Version: version, Args: cli.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return measure(cmd, version, config, asJSON)
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	f := root.Flags()
	f.SortFlags = false
	config.Bind(f)
	f.BoolVar(&asJSON, "json", false, "print JSON instead of the table")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text, _ := cli.FlagError(cmd, err)
		return cli.Usage("%s", text)
	})
	root.AddCommand(limits.Command(), limits.EchoServerCommand(), compare.Command(), grouping.Command(), transact.Command(),
		sharing.Command(), connections.Command())
	cli.RejectUnknownHelp(root, cli.NoArgs)
	return root
}

// measure makes one run and prints it.
func measure(cmd *cobra.Command, version string, c bench.Config, asJSON bool) error {
	c, err := c.Complete()
	if err != nil {
		return err
	}
	live := results.NewLive(cmd.ErrOrStderr(), c, cli.IsTerminal(cmd.ErrOrStderr()))
	r, err := bench.Run(cmd.Context(), c, live.Progress)
	live.Done()
	if err != nil {
		return err
	}
	r.Program = version
	form := results.Table
	if asJSON {
		form = results.JSON
	}
	return errors.Join(form(cmd.OutOrStdout(), r), judge(r))
}

// judge returns the error of a run that has a result and failed nevertheless.
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
