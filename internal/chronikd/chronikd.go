// Package chronikd is the command line of chronikd: its commands and flags, its manual pages, its
// log, the signals that drain or end the process, and the reports to systemd.
//
// It promises that a command that fails ends with an exit code of its kind and one line of cause
// and remedy. Package daemon is the broker that it starts, which a Go program can start without it.
// This package does not know of what parts the broker consists.
package chronikd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/daemon"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/memory"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Process holds everything that a command line uses of its process.
type Process struct {
	Args    []string // without the program's name
	Environ []string
	In      io.Reader // passwords; nil means the process's standard input
	Out     io.Writer // results
	Err     io.Writer // log and errors
	Version string
	// Signals delivers the signals that ask the process to end: the first ends what Main does, and
	// a later one, at least two seconds after it, calls Exit. It may be nil.
	Signals <-chan os.Signal
	// Exit ends the process.
	Exit func(code int)
	// FS holds the directories of the configuration; nil means the operating system's.
	FS vfs.FS
	// Net is the network of recover; nil means the operating system's.
	Net daemon.Network
}

// Main runs one command line until it is done or ctx ends, and returns the exit code. It writes
// each error to Err as one line with the cause and the remedy.
func Main(ctx context.Context, p Process) int {
	s := &signals{ch: p.Signals, exit: p.Exit}
	ctx, end := s.watch(ctx)
	defer end()
	root := command(p, s)
	root.SetArgs(p.Args)
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exit.OK
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		fmt.Fprintf(p.Err, "chronikd: %s\n", line)
	}
	return exit.CodeOf(err)
}

// fileSystem returns the file system of the directories.
func (p Process) fileSystem() vfs.FS {
	if p.FS != nil {
		return p.FS
	}
	return vfs.OS()
}

// commandLine holds the flags of one command line.
type commandLine struct {
	Process
	file    string
	set     []string
	flags   map[string]*string // by setting
	root    *cobra.Command
	signals *signals
}

func command(p Process, s *signals) *cobra.Command {
	c := &commandLine{Process: p, signals: s, flags: make(map[string]*string)}
	c.root = &cobra.Command{
		Use:   "chronikd",
		Short: "A log broker that speaks the Kafka protocol; an acknowledged record is on disk",
		Long: "chronikd starts a broker. Without a flag it listens on " + config.DefaultListen + ", keeps its data in ./data\n" +
			"and serves metrics and health on " + config.DefaultAdminListen + ".\n\n" +
			"Every setting can be given in the YAML file of --config, as a variable (CHRONIK_NUM_PARTITIONS for\n" +
			"num.partitions), with --set num.partitions=4 or, if it has one, by its flag; a later source overrides an earlier one.\n\n" +
			exit.Help,
		Version:       p.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context()) },
	}
	f := c.root.PersistentFlags()
	f.StringVar(&c.file, "config", "", "YAML file of settings ("+config.EnvFile+")")
	f.StringArrayVar(&c.set, "set", nil, "name=value of any setting; may be repeated")
	docs := make(map[string]config.Def)
	for _, d := range config.Own() {
		docs[d.Name] = d
	}
	for _, name := range config.Flagged() {
		first, _, _ := strings.Cut(docs[name].Doc, ". ")
		usage := strings.TrimSuffix(first, ".")
		if values := docs[name].Bounds; values != "" {
			usage += ": " + values
		}
		usage += fmt.Sprintf(" (%s; default %q)", config.EnvName(name), docs[name].Default)
		c.flags[name] = f.String(config.FlagName(name), "", usage)
	}
	c.root.SetFlagErrorFunc(usageError)
	listen := "--listen HOST:PORT sets the address for clients"
	cli.Instead(c.root, map[string]string{"--port": listen, "-p": listen, "--host": listen, "--bind": listen, "--address": listen,
		"--broker-id": "--set node.id=NUMBER sets the id of the broker", "--node-id": "--set node.id=NUMBER sets the id of the broker",
		"--override": "--set name=value sets any setting", "--log-dir": "--data-dir names the directory for all data",
		"--log-dirs": "--data-dir names the directory for all data"})
	c.root.CompletionOptions.HiddenDefaultCmd = true
	c.root.AddCommand(c.configCommand(), c.healthCommand(), c.recoverCommand(), c.restoreCommand(),
		c.secureCommand(), c.userCommand(), c.versionCommand())
	cli.RejectUnknownHelp(c.root, noArgs)
	c.root.InitDefaultCompletionCmd()
	for _, x := range c.root.Commands() {
		if x.Name() == "completion" {
			x.Args = noArgs
			x.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return c.root
}

// usageError adds the closest flag to the text, if one is similar, or what sets any setting.
func usageError(cmd *cobra.Command, err error) error {
	text, known := cli.FlagError(cmd, err)
	if !known && strings.HasSuffix(text, "lists the flags") {
		text += ", and --set name=value accepts any setting"
	}
	return usage(errors.New(text))
}

func usage(err error) error { return exit.With(exit.Usage, err) }

// noArgs rejects arguments. If cmd has subcommands, the error names the closest one.
func noArgs(cmd *cobra.Command, args []string) error {
	err := cli.NoArgs(cmd, args)
	if err == nil {
		return nil
	}
	if !cmd.HasParent() && !strings.HasSuffix(err.Error(), "?") {
		err = fmt.Errorf("%w, and %s alone starts the broker", err, cmd.CommandPath())
	}
	return usage(err)
}

// input gathers the sources of the configuration.
func (c *commandLine) input() config.Input {
	in := config.Input{File: c.file, ReadFile: os.ReadFile, Environ: c.Environ, Set: c.set, Flags: make(map[string]string)}
	for name, value := range c.flags {
		if c.root.PersistentFlags().Changed(config.FlagName(name)) {
			in.Flags[name] = *value
		}
	}
	if in.File == "" {
		for _, kv := range c.Environ {
			if v, ok := strings.CutPrefix(kv, config.EnvFile+"="); ok {
				in.File = v
			}
		}
	}
	return in
}

// serve runs the broker until ctx ends.
func (c *commandLine) serve(ctx context.Context) error {
	// A panic, and the SIGABRT of a watchdog, must end the process by a signal. By default both
	// exit with 2, which reports a wrong configuration: a supervisor restarts the process after a
	// signal but not after 2.
	debug.SetTraceback("crash")
	cfg, err := resolve.Load(c.input())
	if err != nil {
		return &configError{err}
	}
	log, level, err := newLogger(c.Err, cfg.LogFormat, cfg.LogLevel)
	if err != nil {
		return &configError{err}
	}
	defer func() { _ = log.Sync() }() // standard error cannot always be synced, and nothing could be done
	memory.Limit(log)
	c.signals.log.Store(log)
	reload := make(chan struct{}, 1)
	if cfg.HasTLS() { // otherwise a terminal that closes ends the broker, as it always did
		c.signals.reload.Store(&reload)
	}
	return run(ctx, daemon.Options{Config: cfg, FS: c.fileSystem(), Log: log, Level: level, Version: c.Version, Reload: reload,
		Reread: func() (*config.Config, error) { return resolve.Load(c.input()) }})
}

// stopped reads the configuration of a broker that is stopped, for a command that does what it
// needs. The log has errors only.
func (c *commandLine) stopped() (*config.Config, *configdef.Broker, *zap.Logger, error) {
	cfg, err := resolve.Load(c.input())
	if err != nil {
		return nil, nil, nil, &configError{err}
	}
	log, _, err := newLogger(c.Err, cfg.LogFormat, "error")
	if err != nil {
		return nil, nil, nil, &configError{err}
	}
	conf, err := resolve.Registry(cfg.Durability).ResolveBroker(resolve.Static(cfg))
	if err != nil {
		return nil, nil, nil, exit.With(exit.Usage, err)
	}
	return cfg, &conf, log, nil
}

// configError holds one or more lines about the configuration.
type configError struct{ err error }

func (e *configError) Error() string { return e.err.Error() }
func (e *configError) Unwrap() error { return exit.With(exit.Usage, e.err) }

func (c *commandLine) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Check a configuration, or print the defaults", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	check := &cobra.Command{
		Use: "check", Short: "Read the configuration as a start would and print what it sets", Args: noArgs,
		Long: "check reads the file, the variables and the flags as a start would, prints every setting that differs from its default with\n" +
			"its source, and every listener, and starts nothing. It exits with 2 if something is wrong.",
		RunE: func(*cobra.Command, []string) error { return c.check() },
	}
	print := &cobra.Command{
		Use: "print-defaults", Short: "Print a configuration file with every setting, its meaning and its default", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := resolve.Load(config.Input{})
			if err != nil {
				return err
			}
			return config.Defaults(c.Out, resolve.Settings(resolve.Registry(cfg.Durability)))
		},
	}
	cmd.AddCommand(check, print)
	return cmd
}

func (c *commandLine) check() error {
	cfg, err := resolve.Load(c.input())
	if err != nil {
		return &configError{err}
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(c.Err, "warning: %s\n", w)
	}
	certificates, err := guard.OpenCertificates(cfg, zap.NewNop())
	if err != nil {
		return err
	}
	if err := certificates.Untimely(); err != nil {
		return err
	}
	if _, err := guard.AdminToken(cfg); err != nil {
		return err
	}
	var errs []error
	for _, s := range cfg.Settings {
		if s.Source != config.SourceDefault {
			_, err := fmt.Fprintf(c.Out, "%s = %s (%s)\n", s.Name, s.Value, s.Source)
			errs = append(errs, err)
		}
	}
	for i := range cfg.Listeners {
		_, err := fmt.Fprintln(c.Out, listenerLine(&cfg.Listeners[i]))
		errs = append(errs, err)
	}
	_, err = fmt.Fprintln(c.Out, "the configuration is valid")
	return errors.Join(append(errs, err)...)
}

// listenerLine describes a listener in one line.
func listenerLine(l *config.Listener) string {
	line := "listener " + l.Name + ": " + l.Listen
	if l.Advertise != "" {
		line += ", advertise: " + l.Advertise
	}
	if l.Forward {
		line += ", route: forward"
	}
	return line
}

func (c *commandLine) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(c.Out, c.Version)
			return err
		},
	}
}

// Command is the main function of chronikd: Main with this process's arguments, environment, output
// and signals. It ends the process with Main's exit code.
func Command(version string) {
	signals := make(chan os.Signal, 1) // further signals while one waits mean the same
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // it is ignored under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	os.Exit(Main(context.Background(), Process{
		Args: os.Args[1:], Environ: os.Environ(), Out: os.Stdout, Err: os.Stderr, Version: cli.Version(version),
		Signals: signals, Exit: os.Exit,
	}))
}
