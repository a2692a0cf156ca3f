package ctl

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// leaves calls f for each command without subcommands.
func leaves(c *cobra.Command, f func(*cobra.Command)) {
	switch {
	case c.Name() == "help" || c.Hidden:
	case !c.HasSubCommands():
		f(c)
	default:
		for _, child := range c.Commands() {
			leaves(child, f)
		}
	}
}

// maxHelp is the maximum number of lines of a command's help.
const maxHelp = 48

// The help of each command fits on a screen.
func TestHelpIsShort(t *testing.T) {
	var paths []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		paths = append(paths, c.CommandPath())
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(Root(app.New("v", app.Streams{})))
	for _, path := range paths {
		var out, errs bytes.Buffer
		args := strings.Fields(path + " --help")[1:]
		if code := Main(t.Context(), args, "v", Streams{In: strings.NewReader(""), Out: &out, Err: &errs}); code != 0 || errs.Len() > 0 {
			t.Errorf("%s --help: %d %s", path, code, errs.String())
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) > maxHelp {
			t.Errorf("%s --help has %d lines, the most is %d:\n%s", path, len(lines), maxHelp, out.String())
		}
		example := false
		for _, line := range lines {
			if example = line == "Examples:" || example && line != ""; !example && utf8.RuneCountInString(line) > columns {
				t.Errorf("%s --help has a line of %d columns: %s", path, utf8.RuneCountInString(line), line)
			}
		}
	}
}

// Each command has an example; those of completion scripts are in the description.
func TestEachCommandHasAnExample(t *testing.T) {
	leaves(Root(app.New("v", app.Streams{})), func(c *cobra.Command) {
		if c.Example == "" && c.Parent().Name() != "completion" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, line := range strings.Split(c.Example, "\n") {
			if c.Example != "" && (!strings.HasPrefix(line, "  ") || !strings.Contains(line, "chronikctl")) {
				t.Errorf("%s: %q is no indented command line of chronikctl", c.CommandPath(), line)
			}
		}
	})
}
