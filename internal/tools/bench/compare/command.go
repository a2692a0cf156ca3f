package compare

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
)

// Command returns `compare`, with the flags of a run for both sides and its own.
func Command() *cobra.Command {
	cmd, _ := newCommand()
	return cmd
}

func newCommand() (*cobra.Command, *options) {
	o := &options{config: bench.Default()}
	var p Plan
	cmd := frame.Command("compare --a HOST:PORT --b HOST:PORT [flags] [-- flags of the load]",
		"Run the same load on two brokers alternately and print their ratios",
		"compare runs A B A B … and prints each run, then the medians of both and of their ratios with minimum and maximum. A ratio is\n"+
			"computed within a round. All flags of a single run apply to both sides; --set-a and --set-b change one for a single side, as in\n"+
			"--set-b acks=1 or --set-b topic-config=flush.messages=1. With --pid-a and --pid-b it reports the servers' CPU per request, with --echo\n"+
			"it adds a bare TCP echo of the same sizes and connections to each round.",
		func(ctx context.Context, progress io.Writer) (*Comparison, error) {
			return Run(ctx, p, func(line string) { fmt.Fprintln(progress, line) })
		})
	cmd.Args = nil
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		p, err = o.planOf(cmd, args)
		return err
	}
	f := cmd.Flags()
	o.config.Bind(f)
	// Flags that only a single side can have; Bind has defined them.
	for _, name := range []string{brokersFlag, pidFlag} {
		f.Lookup(name).Hidden = true
	}
	frame.BindSides(f, &o.a.Side, &o.b.Side, "request", "")
	f.StringArrayVar(&o.a.set, "set-a", nil, "flag of the load for side A only, name=value; may be repeated")
	f.StringArrayVar(&o.b.set, "set-b", nil, "flag of the load for side B only")
	o.plan.Schedule.Bind(f, 5)
	f.BoolVar(&o.plan.Echo, "echo", false, "add a bare TCP echo to each round")
	return cmd, o
}

// Flags of a run that compare has for each side.
const (
	brokersFlag = "bootstrap-servers"
	pidFlag     = "server-pid"
)

// options are the flags of `compare`.
type options struct {
	config bench.Config
	plan   Plan
	a, b   sideOptions
}

type sideOptions struct {
	frame.Side
	set []string
}

// planOf returns the plan from the flags and from the arguments after "--", which are also flags.
func (o *options) planOf(cmd *cobra.Command, args []string) (Plan, error) {
	f := cmd.Flags()
	if len(args) > 0 {
		if err := f.Parse(args); err != nil {
			text, _ := cli.FlagError(cmd, err)
			return Plan{}, cli.Usage("flags of the load: %s", text)
		}
		if rest := f.Args(); len(rest) > 0 {
			return Plan{}, cli.Usage("%q is not a flag; %s --help lists the flags", rest[0], cmd.CommandPath())
		}
	}
	for _, name := range []string{brokersFlag, pidFlag} {
		if f.Changed(name) {
			return Plan{}, cli.Usage("--%s: each side has its own flag; use --a and --b, --pid-a and --pid-b", name)
		}
	}
	p := o.plan
	var err error
	if p.A, err = o.a.side(cmd, "a", o.config); err != nil {
		return Plan{}, err
	}
	p.B, err = o.b.side(cmd, "b", o.config)
	return p, err
}

// side returns one side, whose flags override those of both.
func (o sideOptions) side(cmd *cobra.Command, letter string, c bench.Config) (Side, error) {
	if len(o.Brokers) == 0 {
		return Side{}, cli.Usage("--%s: name at least one host:port, for example %s", letter, bench.Default().Brokers[0])
	}
	c.Brokers, c.ServerPID = o.Brokers, o.PID
	c.TopicConfig = maps.Clone(c.TopicConfig) // a flag of one side changes the map
	fs := pflag.NewFlagSet("set-"+letter, pflag.ContinueOnError)
	c.Bind(fs)
	for _, text := range o.set {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return Side{}, cli.Usage("--set-%s: %q is not name=value; write for example acks=1", letter, text)
		}
		if err := fs.Set(name, value); err != nil {
			text, _ := cli.FlagError(cmd, err)
			return Side{}, cli.Usage("--set-%s: %s", letter, text)
		}
	}
	return Side{Name: o.Name, Config: c}, nil
}
