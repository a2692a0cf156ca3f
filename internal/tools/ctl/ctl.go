// Package ctl is the tool chronikctl: it administers chronik, and any other broker that speaks the
// Kafka protocol, from a shell.
//
// It builds the command tree, and has the commands context, version and completion. Each other noun
// has a package, except that cluster also has broker, profile, debug and api-versions, records has
// produce and consume, and logs has log. All build on app, which has the flags and the clients.
//
// Standard output carries only the answer, everything else goes to standard error. The exit code is
// 0 only if everything was done. The package does not know the broker's internals: only logs does,
// which works on files.
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
	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/acl"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/cert"
	"github.com/chronik-io/chronik/internal/tools/ctl/cluster"
	"github.com/chronik-io/chronik/internal/tools/ctl/config"
	"github.com/chronik-io/chronik/internal/tools/ctl/group"
	"github.com/chronik-io/chronik/internal/tools/ctl/logs"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/tools/ctl/quota"
	"github.com/chronik-io/chronik/internal/tools/ctl/records"
	"github.com/chronik-io/chronik/internal/tools/ctl/snapshot"
	"github.com/chronik-io/chronik/internal/tools/ctl/top"
	"github.com/chronik-io/chronik/internal/tools/ctl/topic"
	"github.com/chronik-io/chronik/internal/tools/ctl/txn"
	"github.com/chronik-io/chronik/internal/tools/ctl/user"
)

// Streams are the standard streams and the environment of the process.
type Streams = app.Streams

// Std returns the streams and environment of this process.
func Std() Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Environ: os.Environ()}
}

// Main runs one command line and returns the exit code, see app.ExitCodes. Ending ctx interrupts
// it: an interrupted consume is a success.
func Main(ctx context.Context, args []string, version string, s Streams) int {
	root := Root(app.New(cli.Version(version), s))
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return app.ExitOK
	case errors.Is(err, syscall.EPIPE):
		return app.ExitPipe // the reader has enough, as in | head
	}
	for _, line := range strings.Split(text.PlainLines(err.Error()), "\n") {
		fmt.Fprintf(s.Err, "chronikctl: %s\n", line)
	}
	return app.ExitCode(err)
}

// Root returns the command tree.
func Root(a *app.App) *cobra.Command {
	configs := config.New(a)
	const kept = "config is about topics and brokers; chronikctl context keeps the addresses and logins of brokers"
	cli.Instead(configs, map[string]string{"view": kept, "use-context": kept, "get-contexts": kept, "set-context": kept,
		"current-context": kept, "alter": "config set changes configs, config unset resets them to their defaults",
		"delete": "config unset resets configs to their defaults", "remove": "config unset resets configs to their defaults",
		"reset": "config unset resets configs to their defaults"})
	root := app.Parent("chronikctl", "Administer chronik, or any broker that speaks the Kafka protocol",
		topic.New(a), configs, group.New(a), txn.New(a), acl.New(a), user.New(a), quota.New(a), cert.New(a),
		snapshot.New(a),
		records.NewProduce(a), records.NewConsume(a),
		cluster.NewBroker(a), cluster.New(a),
		cluster.NewAPIVersions(a), cluster.NewProfile(a), top.New(a), cluster.NewDebug(a, runner(a)), logs.New(a),
		contextCommand(a), versionCommand(a))
	root.Long = "chronikctl administers chronik, and any other broker that speaks the Kafka protocol. " +
		"The broker's address comes from flags, variables (CHRONIKCTL_BROKERS for --brokers), or a context in the contexts file\n" +
		"(chronikctl context), in this order; without any, it is " + contexts.DefaultBrokers + ".\n\n" + app.ExitCodes
	root.Version = a.Version
	root.SilenceErrors, root.SilenceUsage = true, true
	cli.Instead(root, map[string]string{
		"info":                "chronikctl cluster describe shows the cluster",
		"bundle":              "chronikctl debug bundle writes it",
		"status":              "chronikctl cluster health lists what is wrong",
		"health":              "chronikctl cluster health lists what is wrong",
		"doctor":              "chronikctl cluster health lists what is wrong",
		"list":                "chronikctl topic list and group list do that",
		"ls":                  "chronikctl topic list and group list do that",
		"lag":                 "chronikctl group list shows each group's lag",
		"logs":                "chronikctl log reads the log directories of a stopped broker; the broker's own messages are in journalctl -u chronikd",
		"get":                 "write the noun first: chronikctl topic list, group list, config get",
		"describe":            "write the noun first: chronikctl topic describe NAME, group describe NAME",
		"delete":              "write the noun first: chronikctl topic delete NAME, group delete NAME",
		"create":              "write the noun first: chronikctl topic create NAME, user add NAME",
		"apply":               "chronikctl applies no files: topic create and topic alter make and change topics",
		"stream":              "what others call a stream is a topic: chronikctl topic",
		"pub":                 "chronikctl produce TOPIC writes records",
		"sub":                 "chronikctl consume TOPIC prints records",
		"partition":           partitions,
		"partitions":          partitions,
		"reassign":            "chronikctl topic move moves partitions, broker rebalance spreads them",
		"reassign-partitions": "chronikctl topic move moves partitions, broker rebalance spreads them",
		"leader":              "chronikctl topic elect elects leaders",
		"leader-election":     "chronikctl topic elect elects leaders",
		"consumer-groups":     "chronikctl group lists and changes consumer groups",
		"metadata-quorum":     "chronikctl cluster describe shows the voters of the metadata",
		"metadata":            "chronikctl cluster describe shows the voters of the metadata, topic describe a topic",
		"quorum":              "chronikctl cluster describe shows the voters of the metadata",
		"elect-leaders":       "chronikctl topic elect elects leaders",
		"node":                "chronikctl broker shows and changes brokers",
		"nodes":               "chronikctl broker list shows the brokers",
		"cluster-info":        "chronikctl cluster describe shows the cluster",
		"maintenance":         "chronikctl broker maintain ID prepares a broker for a restart",
		"cordon":              "chronikctl broker maintain ID prepares a broker for a restart",
		"uncordon":            "chronikctl broker maintain ID --end ends what broker maintain began",
		"members":             "chronikctl broker list shows the brokers, group describe the members of a group",
		"whoami":              "chronikctl context show shows the user and the source of each setting",
		"login":               logins,
		"logout":              logins,
		"decommission":        "chronikctl broker drain ID moves its replicas away, broker unregister ID removes it",
		"security":            "chronikctl user, acl and cert do that",
		"server":              "chronikctl cluster health lists what is wrong, top shows the load",
		"edit":                "chronikctl config set changes configs",
		"bench":               "chronik-bench measures a broker",
		"backup":              backups,
		"restore":             backups,
		"--bootstrap-server":  "--brokers names the brokers",
		"--command-config":    "chronikctl context keeps TLS and logins",
		"-b":                  "--brokers names the brokers",
		"--broker-list":       "--brokers names the brokers",
		"--zookeeper":         "there is none; --brokers names the brokers",
		"--producer.config":   "chronikctl context keeps TLS and logins",
		"--consumer.config":   "chronikctl context keeps TLS and logins",
		"--topic":             "topics are arguments, without a flag",
		"-t":                  "topics are arguments, without a flag",
		"--entity-name":       "topics, users and brokers are arguments, without a flag",
		"--entity-type":       "the command names it: chronikctl config set topic NAME, quota set --user NAME",
		"--add-config":        "chronikctl config set topic NAME KEY=VALUE sets configs",
		"--delete-config":     "chronikctl config unset topic NAME KEY sets them to their defaults",
		"--execute":           "commands do what they say, after a question if data would be lost; --dry-run only lists it",
		"--create":            "write the noun first: chronikctl topic create NAME, user add NAME",
		"--describe":          "write the noun first: chronikctl topic describe NAME, group describe NAME",
		"--alter":             "chronikctl topic alter changes topics, config set changes configs",
		"--reset-offsets":     "chronikctl group reset GROUP sets offsets",
		"role":                notYet,
		"schema":              notYet,
		"connect":             notYet,
	})
	root.SetFlagErrorFunc(app.FlagError)
	a.Prepare(root)
	app.CompleteFlag(root, contexts.Output, app.OneOf("table", "wide", "name", "json", "yaml", output.Path))
	app.CompleteFlag(root, contexts.SASL, app.OneOf("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"))
	app.CompleteFlag(root, "context", contextNames(a))
	cli.RejectUnknownHelp(root, cli.NoArgs)
	completion(a, root)
	root.SetUsageFunc(usage)
	root.SetHelpFunc(help)
	return root
}

// runner returns a function that runs another command line with this run's sources of settings and
// no input.
func runner(a *app.App) cluster.Runner {
	return func(ctx context.Context, args []string, out, errs io.Writer) int {
		return Main(ctx, args, a.Version, Streams{In: strings.NewReader(""), Out: out, Err: errs, Getenv: a.Getenv, Environ: a.Environ})
	}
}

// Hints for several words.
const (
	partitions = "chronikctl topic describe NAME shows the partitions of a topic, topic move moves them"
	logins     = "there are no sessions: chronikctl context set NAME sasl-user=USER saves a login, context use selects it"
	backups    = "chronikctl snapshot takes snapshots of the cluster, chronikd restore restores one (docs/snapshots.md)"
)

// notYet is the hint for commands that other brokers' tools have.
const notYet = "chronikctl has no such command; docs/compatibility.md lists what chronik supports"

// columns is the maximum width of help.
const columns = 100

// help prints a command's description and usage.
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
	c.SetOut(w)  // usage is part of the answer
	_ = usage(c) // errors of the stream show elsewhere
}

// filled breaks a paragraph into lines. It keeps indented paragraphs, such as lists and examples,
// as they are.
func filled(paragraph string) []string {
	if strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ") || strings.Contains(paragraph, "\n\t") {
		return strings.Split(paragraph, "\n")
	}
	return text.Wrap(paragraph, columns)
}

// usage prints the usage of a command, wrapped, without the global flags: they would hide the
// command's own. It does not use a text/template: with one, the linker keeps every method of every
// type, about 4 MB.
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

// shownFlags returns a command's own flags. For the root these are the global flags, without the
// names of the variables and without TLS, SASL and the admin port's token: those belong into a
// context.
func shownFlags(c *cobra.Command) *pflag.FlagSet {
	if c.HasParent() {
		return c.LocalFlags()
	}
	some := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !strings.HasPrefix(f.Name, "tls") && !strings.HasPrefix(f.Name, "sasl") && f.Name != contexts.AdminTokenFile {
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
			// Print the version even if the settings are wrong.
			if a.Resolve(cmd) == nil && !a.Format().ForPeople() {
				return a.Print(map[string]string{"version": a.Version})
			}
			_, err := fmt.Fprintln(a.Out, a.Version)
			return err
		},
	})
}
