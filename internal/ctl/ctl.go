// Package ctl is chronikctl: it administers chronik, and any other broker that speaks the Kafka
// protocol, from a shell.
//
// It builds the command tree. The commands are in topic, config, group, records (produce and
// consume), cluster, logs and top; they share app, contexts, output and parse. Standard output
// carries only the answer, everything else goes to standard error. The exit code is 0 only if
// everything was done. Only logs, which works on files, knows the broker's internals.
package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/ctl/cluster"
	"github.com/chronik-io/chronik/internal/ctl/config"
	"github.com/chronik-io/chronik/internal/ctl/contexts"
	"github.com/chronik-io/chronik/internal/ctl/group"
	"github.com/chronik-io/chronik/internal/ctl/logs"
	"github.com/chronik-io/chronik/internal/ctl/records"
	"github.com/chronik-io/chronik/internal/ctl/top"
	"github.com/chronik-io/chronik/internal/ctl/topic"
	"github.com/chronik-io/chronik/internal/text"
)

// Streams are the standard ones of the process, and its variables.
type Streams = app.Streams

// Std returns the streams and the variables of the process.
func Std() Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Environ: os.Environ()}
}

// Main runs one command line and returns the exit code, see app.ExitCodes. The
// context ends it: an interrupted consume is a success.
func Main(ctx context.Context, args []string, version string, s Streams) int {
	root := Root(app.New(version, s))
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return app.ExitOK
	case errors.Is(err, syscall.EPIPE):
		return app.ExitPipe // as after | head: who was to read it has enough
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		fmt.Fprintf(s.Err, "chronikctl: %s\n", line)
	}
	return app.ExitCode(err)
}

// Root is the tree of all commands.
func Root(a *app.App) *cobra.Command {
	root := app.Parent("chronikctl", "Administer chronik, or any broker that speaks the Kafka protocol",
		topic.New(a), config.New(a), group.New(a), records.NewProduce(a), records.NewConsume(a), cluster.NewBroker(a), cluster.New(a),
		cluster.NewAPIVersions(a), cluster.NewProfile(a), cluster.NewDoctor(a), top.New(a), cluster.NewDebug(a, runner(a)), logs.New(a), contextCommand(a), versionCommand(a))
	root.Long = "chronikctl administers chronik, and any other broker that speaks the Kafka protocol.\n\n" +
		"Where the broker is comes from flags, else from variables (CHRONIKCTL_BROKERS for --brokers), else from a context of the\n" +
		"contexts file (chronikctl context), else it is " + contexts.DefaultBrokers + ".\n\n" + app.ExitCodes
	root.Version = a.Version
	root.SilenceErrors, root.SilenceUsage = true, true
	cli.Instead(root, map[string]string{
		"info":        "chronikctl cluster describe shows the cluster",
		"bundle":      "chronikctl debug bundle writes it",
		"status":      "chronikctl cluster health finds what is wrong",
		"health":      "chronikctl cluster health finds what is wrong",
		"list":        "chronikctl topic list and group list do that",
		"ls":          "chronikctl topic list and group list do that",
		"lag":         "chronikctl group list shows each group's lag",
		"acl":         notYet,
		"user":        notYet,
		"role":        notYet,
		"quota":       notYet,
		"schema":      notYet,
		"transaction": notYet,
		"connect":     notYet,
	})
	root.SetFlagErrorFunc(app.FlagError)
	a.Prepare(root)
	app.CompleteFlag(root, contexts.Output, app.OneOf("table", "wide", "json", "yaml"))
	app.CompleteFlag(root, contexts.SASL, app.OneOf("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"))
	app.CompleteFlag(root, "context", contextNames(a))
	cli.RejectUnknownHelp(root, cli.NoArgs)
	completion(a, root)
	root.SetUsageFunc(usage)
	root.SetHelpFunc(help)
	return root
}

// runner runs other command lines with the settings' sources of this run, and nothing to read.
func runner(a *app.App) cluster.Runner {
	return func(ctx context.Context, args []string, out, errs io.Writer) int {
		return Main(ctx, args, a.Version, Streams{In: strings.NewReader(""), Out: out, Err: errs, Getenv: a.Getenv, Environ: a.Environ})
	}
}

// notYet is said of what other brokers' tools have.
const notYet = "chronikctl has nothing of that kind; docs/compatibility.md lists what chronik offers"

// columns is how wide a line of help may be.
const columns = 100

// help prints what a command does, and its usage.
func help(c *cobra.Command, _ []string) {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	w := c.OutOrStdout()
	for _, paragraph := range strings.Split(text, "\n\n") {
		for _, line := range filled(paragraph) {
			fmt.Fprintln(w, line)
		}
		fmt.Fprintln(w)
	}
	c.SetOut(w)  // usage is an answer here
	_ = usage(c) // a stream that is gone is found by the process
}

// filled breaks a paragraph into lines that fit; one that is indented, as a list or an
// example is, stays as it is.
func filled(paragraph string) []string {
	if strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ") || strings.Contains(paragraph, "\n\t") {
		return strings.Split(paragraph, "\n")
	}
	return text.Wrap(paragraph, columns)
}

// usage prints how a command is called, with lines that fit, and without the list
// of the flags that all commands have: they would bury those that it has itself. It
// is no template: the linker keeps every method of every type where one is used,
// 4 MB of them.
func usage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprintln(w, "Usage:")
	if !c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s\n", c.UseLine())
	} else {
		fmt.Fprintf(w, "  %s [command]\n\nCommands:\n", c.CommandPath())
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(w, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasAvailableLocalFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", shownFlags(c).FlagUsagesWrapped(columns))
	}
	if !c.HasParent() {
		fmt.Fprintln(w, "      --tls…, --sasl…      TLS and authentication; chronikctl context show lists these settings")
	} else if c.HasAvailableInheritedFlags() {
		fmt.Fprintln(w, "\nEvery command has --brokers, --context, --output, --timeout, --yes and others (chronikctl --help).")
	}
	return nil
}

// shownFlags are a command's own flags. Those of the root are the flags of all commands: TLS
// and SASL, which go into a context, are left out, and the variables, which are named alike.
func shownFlags(c *cobra.Command) *pflag.FlagSet {
	if c.HasParent() {
		return c.LocalFlags()
	}
	some := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !strings.HasPrefix(f.Name, "tls") && !strings.HasPrefix(f.Name, "sasl") {
			short := *f
			short.Usage = strings.TrimSuffix(short.Usage, " ("+contexts.Env(f.Name)+")")
			some.AddFlag(&short)
		}
	})
	return some
}

func versionCommand(a *app.App) *cobra.Command {
	return app.Offline(&cobra.Command{
		Use: "version", Short: "Print the version", Args: app.Args(0, 0, "no argument"),
		Example: "  chronikctl version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Whose settings are wrong is still told the version.
			if a.Resolve(cmd) == nil && !a.Format().ForPeople() {
				return a.Print(map[string]string{"version": a.Version})
			}
			_, err := fmt.Fprintln(a.Out, a.Version)
			return err
		},
	})
}
