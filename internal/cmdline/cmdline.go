// Package cmdline words what is wrong with a command line: the cause as cobra
// finds it, and what to write instead.
//
// It owns the texts that the three commands have in common, so that a flag which
// does not exist is told in the same words everywhere, with the one that was
// probably meant, and the exit codes that chronikctl and chronik-bench share;
// chronikd has codes of its own. It knows nothing of what any command does.
package cmdline

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/text"
)

// FlagError is the text of what cobra's flag parser refused. known says that the flag
// itself is right.
func FlagError(cmd *cobra.Command, err error) (text string, known bool) {
	text = regexp.MustCompile(`(strconv\.\w+: parsing "[^"]*"|time): `).ReplaceAllString(err.Error(), "")
	if e := (*pflag.NotExistError)(nil); errors.As(err, &e) && e.GetSpecifiedShortnames() == "" {
		if what := cmd.Annotations[instead+"--"+e.GetSpecifiedName()]; what != "" {
			return fmt.Sprintf("%s; %s", text, what), false
		}
		if near := nearFlag(cmd, e.GetSpecifiedName()); near != "" {
			return fmt.Sprintf("%s; did you mean --%s?", text, near), false
		}
		return fmt.Sprintf("%s; %s --help lists the flags", text, cmd.CommandPath()), false
	}
	if e := (*pflag.InvalidValueError)(nil); errors.As(err, &e) {
		if how := example(e.GetFlag().Value.Type()); how != "" {
			return text + "; " + how, true
		}
	}
	return fmt.Sprintf("%s; %s --help lists the flags", text, cmd.CommandPath()), true
}

// example is what to write for a flag of a type of pflag's; empty where its own
// text says it.
func example(kind string) string {
	switch kind {
	case "duration":
		return "write for example 500ms, 30s or 2m"
	case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64":
		return "write a whole number"
	case "float32", "float64":
		return "write a number"
	case "bool":
		return "write true or false"
	case "stringToString":
		return "write name=value"
	}
	return ""
}

// nearFlag is the flag of the command that is most like name; empty for none.
func nearFlag(cmd *cobra.Command, name string) string {
	var known []string
	look := func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	}
	cmd.Flags().VisitAll(look)
	cmd.InheritedFlags().VisitAll(look)
	near, _ := text.Closest(name, known)
	return near
}

// NoArgs refuses arguments of a command that takes none; below one that has
// others, they are commands which do not exist.
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
	return Usage("%s has no command %q; %s --help lists the commands", path, args[0], path)
}

// instead begins the annotation of a command that says what to write instead of a name.
const instead = "instead of "

// Instead says what to write instead of commands below c, or of flags of it ("--name"),
// that other tools have and this one has elsewhere or not at all.
func Instead(c *cobra.Command, texts map[string]string) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	for name, text := range texts {
		c.Annotations[instead+name] = text
	}
}

// RejectUnknownHelp makes the root's help command refuse what is no command, with args, the
// root's own: cobra's shows the root's help and succeeds.
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
