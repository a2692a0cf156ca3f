// Package cli holds what the command lines of chronikd, chronikctl and chronik-bench share:
// the wording of mistakes in a command line, the bounds of flags, exit codes, terminals and manual
// pages.
//
// The three tools report an unknown flag in the same words, together with the flag that was
// probably meant. chronikctl and chronik-bench also share their exit codes; chronikd has codes of
// its own. A value outside a flag's bounds is an error that names the bounds. The package does not
// know what any command does.
package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/text"
)

// FlagError returns the text for an error of cobra's flag parser, with a remedy. known reports
// whether the flag itself exists. If the command before the flag does not exist, that is the error:
// the flag belongs to it.
func FlagError(cmd *cobra.Command, err error) (text string, known bool) {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		if missing := NoArgs(cmd, words); missing != nil {
			return missing.Error(), false
		}
	}
	text = err.Error()
	if e := (*pflag.NotExistError)(nil); errors.As(err, &e) && e.GetSpecifiedShortnames() == "" {
		if what := hint(cmd, "--"+e.GetSpecifiedName()); what != "" {
			return fmt.Sprintf("%s; %s", text, what), false
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() == e.GetSpecifiedName() {
				return fmt.Sprintf("%s; %s is a command, without dashes", text, sub.CommandPath()), false
			}
		}
		if near := nearFlags(cmd, e.GetSpecifiedName()); len(near) > 0 {
			return fmt.Sprintf("%s; did you mean --%s?", text, strings.Join(near, ", --")), false
		}
		return fmt.Sprintf("%s; %s --help lists the flags", text, cmd.CommandPath()), false
	}
	if e := (*pflag.NotExistError)(nil); errors.As(err, &e) {
		if what := hint(cmd, "-"+e.GetSpecifiedName()); what != "" {
			return fmt.Sprintf("%s; %s", text, what), false
		}
	}
	if e := (*pflag.InvalidValueError)(nil); errors.As(err, &e) {
		return text, true // which says what the value must be
	}
	return fmt.Sprintf("%s; %s --help lists the flags", text, cmd.CommandPath()), true
}

// nearFlags returns the flags of the command that begin with name and a dash, or the one that is
// closest to it; none if none is close.
func nearFlags(cmd *cobra.Command, name string) (near []string) {
	var known []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if one, found := text.Closest(name, known); found {
		return []string{one}
	}
	for _, flag := range known {
		if strings.HasPrefix(flag, name+"-") {
			near = append(near, flag)
		}
	}
	slices.Sort(near)
	return slices.Compact(near)
}

// NoArgs is a cobra.PositionalArgs for commands without arguments. If the command has
// subcommands, it reports the argument as an unknown command.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	path := cmd.CommandPath()
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(append(names, c.Name()), c.Aliases...)
		}
	}
	if len(names) == 0 {
		return Usage("%s takes no argument %q; see %s --help", path, args[0], path)
	}
	if what := cmd.Annotations[instead+args[0]]; what != "" {
		return Usage("%s has no command %q; %s", path, args[0], what)
	}
	if near, found := text.Closest(args[0], names); found {
		return Usage("%s has no command %q; did you mean %s?", path, args[0], near)
	}
	if paths := called(cmd.Root(), args[0]); len(paths) > 0 {
		return Usage("%s has no command %q; did you mean %s?", path, args[0], strings.Join(paths, " or "))
	}
	if what := hint(cmd, args[0]); what != "" {
		return Usage("%s has no command %q; %s", path, args[0], what)
	}
	return Usage("%s has no command %q; %s --help lists the commands", path, args[0], path)
}

// called returns the paths of the commands below c that have a name.
func called(c *cobra.Command, name string) (paths []string) {
	for _, sub := range c.Commands() {
		if !sub.Hidden && (sub.Name() == name || sub.HasAlias(name)) {
			paths = append(paths, sub.CommandPath())
		}
		paths = append(paths, called(sub, name)...)
	}
	return paths
}

// instead prefixes the annotations that Instead sets.
const instead = "instead of "

// hint returns what Instead has registered for a word or a flag at a command or its nearest parent.
func hint(cmd *cobra.Command, word string) string {
	for c := cmd; c != nil; c = c.Parent() {
		if what := c.Annotations[instead+word]; what != "" {
			return what
		}
	}
	return ""
}

// Instead registers hints for subcommands and flags ("--name", "-n") that other tools have and c
// does not. The error for an unknown name then carries the hint, also that of c's subcommands. A
// word that is the name of a command elsewhere needs no hint, and neither does a flag that is the
// name of a subcommand.
func Instead(c *cobra.Command, texts map[string]string) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	for name, text := range texts {
		c.Annotations[instead+name] = text
	}
}

// RejectUnknownHelp makes the root's help command fail for an unknown command, by calling args.
// cobra's own shows the root's help and succeeds.
func RejectUnknownHelp(root *cobra.Command, args cobra.PositionalArgs) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = func(_ *cobra.Command, names []string) error {
				found, rest, err := root.Find(names)
				if err != nil {
					found, rest = root, names
				}
				return args(found, rest)
			}
		}
	}
}
