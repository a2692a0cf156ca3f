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

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/ctl/contexts"
	"github.com/chronik-io/chronik/internal/ctl/output"
)

// Streams are what a run takes from its process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Getenv reads a variable; nil has none.
	Getenv func(string) string
	// Environ are all variables, NAME=value: those that begin as ours do and are
	// none of them were meant to be one.
	Environ []string
}

// App is one run of chronikctl.
type App struct {
	Streams
	Version  string
	Settings contexts.Settings

	dial cli.DialFunc // without TLS

	flags   map[string]*string // of the settings, by name
	context string
	noFile  bool // the contexts file is left out
	yes     bool
	strange []string // variables that nobody reads
}

// New returns a run before its command line was read.
func New(version string, s Streams) *App {
	if s.Getenv == nil {
		s.Getenv = func(string) string { return "" }
	}
	return &App{Streams: s, Version: version, dial: (&net.Dialer{Timeout: dialTime}).DialContext, flags: map[string]*string{}}
}

// offline marks commands that need no settings, so that they work where these
// are wrong.
const offline = "offline"

// local marks commands that work on files of this machine.
const local = "local"

// Local marks a command that works on files: it goes on without a contexts file that its
// user may not read, as after sudo, which often keeps another user's HOME.
func Local(c *cobra.Command) *cobra.Command {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[local] = ""
	return c
}

// Offline marks a command as one that talks to nobody.
func Offline(c *cobra.Command) *cobra.Command {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[offline] = ""
	return c
}

// Prepare adds the flags that all commands have to the root and makes it find
// the settings before a command runs.
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
	f.BoolVarP(&a.yes, "yes", "y", false, "do what destroys without asking")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if marked(cmd, offline) {
			return nil
		}
		err := a.Resolve(cmd)
		if errors.Is(err, fs.ErrPermission) && marked(cmd, local) && a.context == "" {
			a.Note("note: %v; going on without it", err)
			a.noFile = true
			err = a.Resolve(cmd)
		}
		for _, name := range a.strange {
			a.Note("warning: the variable %s is not read: no setting has this name", name)
		}
		return err
	}
}

// marked reports whether a command, or one above it, has the annotation.
func marked(c *cobra.Command, annotation string) bool {
	for ; c != nil; c = c.Parent() {
		if _, ok := c.Annotations[annotation]; ok {
			return true
		}
	}
	return false
}

// setting is a flag of a setting. It takes any text: what is wrong with it is
// told by who knows where it came from.
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

// Type is what --help shows behind the flag's name.
func (s *setting) Type() string { return s.kind }

// Resolve finds the settings.
func (a *App) Resolve(cmd *cobra.Command) error {
	in := contexts.Input{Flags: map[string]string{}, Getenv: a.Getenv, Context: a.context, NoFile: a.noFile}
	for name, value := range a.flags {
		if cmd.Flags().Changed(name) {
			in.Flags[name] = *value
		}
	}
	var err error
	if a.strange, err = contexts.Strange(a.Environ); err != nil {
		return Usage("%w", err)
	}
	s, err := contexts.Resolve(in)
	if err != nil {
		return Usage("%w", err)
	}
	a.Settings = s
	return nil
}

// Format is how answers are shown.
func (a *App) Format() output.Format { return output.Format(a.Settings.Get(contexts.Output)) }

// Print shows an answer: v to programs, the tables to people.
func (a *App) Print(v any, tables ...*output.Table) error {
	return output.Print(a.Out, a.Format(), v, tables...)
}

// Note tells people something beside the answer.
func (a *App) Note(format string, args ...any) { fmt.Fprintf(a.Err, format+"\n", args...) }

// Count is a number with the word for what is counted: "1 record", "2 records".
func Count[T int | int32 | int64](n T, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Admin makes a command's RunE of a function that asks a broker.
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

// Args is cobra.RangeArgs with a text that says what is wanted. most < 0 is any
// number. An argument that is empty is refused: it is a variable of a script that
// was not set, and means nothing that has a name.
func Args(least, most int, wanted string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) < least || most >= 0 && len(given) > most {
			return Usage("%s takes %s, not %d; see %s --help", cmd.CommandPath(), wanted, len(given), cmd.CommandPath())
		}
		if i := slices.Index(given, ""); i >= 0 {
			return Usage("%s: argument %d is empty; is a variable not set?", cmd.CommandPath(), i+1)
		}
		return nil
	}
}

// Parent is a command that only has others below it.
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
