// Package app holds what the commands of chronikctl share: the streams and settings of a run, the
// connection to the broker and to chronik's admin port, partition offsets, errors with exit codes
// and remedies, confirmation, and output in the requested format.
//
// Standard output carries only the answer. Every error says what happened, where, and what to
// do. Nothing is deleted without confirmation. The package does not know the commands.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// Streams are the standard streams and the environment of a run. Without Err, notes are dropped.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Getenv returns an environment variable. Nil means that there are none.
	Getenv func(string) string
	// Environ holds all variables as NAME=value. App warns about those that look like settings but
	// are not.
	Environ []string
}

// App is one run of chronikctl.
type App struct {
	Streams
	Version  string
	Settings contexts.Settings

	Throttle Throttle // of all clients

	dial cli.DialFunc // plain TCP, without TLS

	flags            map[string]*string // the flags of the settings, by name
	context          string
	noFile           bool // ignore the contexts file
	yes              bool
	unknownVariables []string // variables that look like settings but are not
}

// New returns a run whose command line has not been parsed yet.
func New(version string, s Streams) *App {
	if s.Getenv == nil {
		s.Getenv = func(string) string { return "" }
	}
	if s.Err == nil {
		s.Err = io.Discard
	}
	return &App{Streams: s, Version: version, dial: new(net.Dialer).DialContext, flags: map[string]*string{}}
}

// offline is the annotation of commands that need no settings. They work even if the settings are
// wrong.
const offline = "offline"

// local is the annotation of commands that work on files of this machine.
const local = "local"

// Local marks a command that works on files. It runs without the contexts file if its user may not
// read that file, for example under sudo, which often keeps another user's HOME.
func Local(c *cobra.Command) *cobra.Command {
	return annotate(c, local)
}

// Offline marks a command that contacts no broker.
func Offline(c *cobra.Command) *cobra.Command {
	return annotate(c, offline)
}

func annotate(c *cobra.Command, annotation string) *cobra.Command {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[annotation] = ""
	return c
}

// Prepare adds the global flags to the root and makes it resolve the settings before a command
// runs.
func (a *App) Prepare(root *cobra.Command) {
	f := root.PersistentFlags()
	for _, s := range contexts.All() {
		value := s.Default
		a.flags[s.Name] = &value
		flag := f.VarPF(&setting{&value, s.Kind()}, s.Name, "", s.Doc+" ("+contexts.Env(s.Name)+")")
		if s.Bool {
			flag.NoOptDefVal = "true"
		}
	}
	f.Lookup(contexts.Output).Shorthand = "o"
	f.StringVar(&a.context, "context", "", "context of the file to use, see chronikctl context ("+contexts.EnvContext+")")
	f.BoolVarP(&a.yes, "yes", "y", false, "do not ask before something is deleted or overwritten")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if marked(cmd, offline) {
			return nil
		}
		err := a.Resolve(cmd)
		if errors.Is(err, fs.ErrPermission) && marked(cmd, local) && a.context == "" {
			a.Note("note: %v; continuing without it", err)
			a.noFile = true
			err = a.Resolve(cmd)
		}
		for _, name := range a.unknownVariables {
			a.Note("warning: the variable %s is not read: no setting has this name", name)
		}
		if a.Settings.NoFile != nil {
			a.Note("note: %v, or the brokers with --%s", a.Settings.NoFile, contexts.Brokers)
		}
		for _, exposed := range a.Settings.Exposed() {
			a.Note("warning: %v", exposed)
		}
		return err
	}
}

// marked reports whether a command or one of its parents has the annotation.
func marked(c *cobra.Command, annotation string) bool {
	for ; c != nil; c = c.Parent() {
		if _, ok := c.Annotations[annotation]; ok {
			return true
		}
	}
	return false
}

// setting is the flag of a setting. It accepts any text: contexts.Resolve validates it, because it
// knows where a value came from.
type setting struct {
	value *string
	kind  string
}

func (s *setting) String() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

func (s *setting) Set(text string) error {
	*s.value = text
	return nil
}

// Type returns the placeholder that --help shows.
func (s *setting) Type() string { return s.kind }

// Resolve determines the settings.
func (a *App) Resolve(cmd *cobra.Command) error {
	in := contexts.Input{Flags: map[string]string{}, Getenv: a.Getenv, Context: a.context, NoFile: a.noFile}
	for name, value := range a.flags {
		if cmd.Flags().Changed(name) {
			in.Flags[name] = *value
		}
	}
	var err error
	if a.unknownVariables, err = contexts.UnknownVariables(a.Environ); err != nil {
		return Usage("%w", err)
	}
	s, err := contexts.Resolve(in)
	if err != nil {
		return Usage("%w", err)
	}
	a.Settings = s
	if err := a.Format().Check(); err != nil {
		return Usage("%s: %w", s.Source(contexts.Output), err)
	}
	return nil
}

// Format returns the output format.
func (a *App) Format() output.Format { return output.Format(a.Settings.Get(contexts.Output)) }

// Print prints an answer: v for programs, the tables for people.
func (a *App) Print(v any, tables ...*output.Table) error {
	return output.Print(a.Out, a.Format(), v, tables...)
}

// Note prints a line for people to standard error. What it names may come from a client.
func (a *App) Note(format string, args ...any) {
	args = slices.Clone(args)
	for i, arg := range args {
		if s, ok := arg.(string); ok {
			args[i] = text.Plain(s)
		}
	}
	fmt.Fprintln(a.Err, text.PlainLines(fmt.Sprintf(format, args...)))
}

// Admin returns a RunE that connects to a broker and calls run.
func (a *App) Admin(run func(ctx context.Context, adm *kadm.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		adm, err := a.Connect(cmd.Context())
		if err != nil {
			return err
		}
		defer adm.Close()
		return run(cmd.Context(), adm, args)
	}
}

// Both is Admin for commands that also send requests for which kadm has no method.
func (a *App) Both(run func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		adm, cl, err := a.connectBoth(cmd.Context())
		if err != nil {
			return err
		}
		defer adm.Close()
		return run(cmd.Context(), adm, cl, args)
	}
}

// Args is cobra.RangeArgs with an error that says what is wanted. most < 0 means any number. It
// refuses empty arguments: they come from a variable that a script did not set.
func Args(least, most int, wanted string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) < least || most >= 0 && len(given) > most {
			return Usage("%s takes %s; %s given; see %s --help", cmd.CommandPath(), wanted, count(len(given)), cmd.CommandPath())
		}
		if i := slices.Index(given, ""); i >= 0 {
			return Usage("%s: argument %d is empty; is a variable not set?", cmd.CommandPath(), i+1)
		}
		return nil
	}
}

// count says how many arguments there are, in words that no argument could be.
func count(n int) string {
	switch n {
	case 0:
		return "none was"
	case 1:
		return "one argument was"
	}
	return fmt.Sprintf("%d arguments were", n)
}

// Parent returns a command that only has subcommands.
func Parent(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(children...)
	for _, child := range children {
		if short := map[string]string{"list": "ls", "delete": "rm"}[child.Name()]; short != "" {
			child.Aliases = append(child.Aliases, short)
		}
	}
	return c
}
