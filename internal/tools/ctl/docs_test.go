package ctl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// The page with the reference, and the command that writes it again.
const (
	page  = "../../../docs/chronikctl.md"
	again = "go test ./internal/tools/ctl -run Docs"
)

// The reference in docs/chronikctl.md contains the help of the commands.
func TestDocsListEveryCommand(t *testing.T) {
	root := Root(app.New("test", app.Streams{}))
	var b strings.Builder
	for _, c := range root.Commands() {
		reference(&b, c)
	}
	golden.Part(t, page, "commands", b.String(), again)
}

func TestDocsListEverySetting(t *testing.T) {
	var b strings.Builder
	b.WriteString("| flag | variable | default | |\n|---|---|---|---|\n")
	for _, s := range contexts.All() {
		value := ""
		if s.Default != "" {
			value = "`" + s.Default + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s |\n", s.Name, contexts.Env(s.Name), value, s.Doc)
	}
	golden.Part(t, page, "settings", b.String(), again)
}

// reference writes a command and its subcommands.
func reference(b *strings.Builder, c *cobra.Command) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	if len(c.Commands()) > 0 {
		fmt.Fprintf(b, "### %s\n\n%s.\n\n", c.Name(), or(wrapped(c.Long), c.Short))
		for _, child := range c.Commands() {
			reference(b, child)
		}
		return
	}
	level := "###"
	if c.Parent().HasParent() {
		level = "####"
	}
	fmt.Fprintf(b, "%s %s\n\n    %s\n\n%s.\n\n", level, strings.TrimPrefix(c.CommandPath(), "chronikctl "), c.UseLine(),
		or(wrapped(c.Long), c.Short))
	if flags := table(c.NonInheritedFlags()); flags != "" {
		b.WriteString("| flag | default | |\n|---|---|---|\n" + flags + "\n")
	}
	if c.Example != "" {
		b.WriteString("```\n" + strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n") + "\n```\n\n")
	}
}

// wrapped breaks a description into lines as help does, without its last full stop.
func wrapped(long string) string {
	var paragraphs []string
	for _, p := range strings.Split(strings.TrimSuffix(strings.TrimSpace(long), "."), "\n\n") {
		paragraphs = append(paragraphs, strings.Join(filled(p), "\n"))
	}
	return strings.Join(paragraphs, "\n\n")
}

func table(f *pflag.FlagSet) string {
	var b strings.Builder
	f.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name += ", `-" + f.Shorthand + "`"
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, value, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
	return b.String()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Every command has a description and names its arguments.
func TestEveryCommandHasHelp(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || c.Args == nil && c.Parent() != nil && c.Parent().Name() != "completion" && c.Name() != "help" &&
			c.Name() != "completion" {
			t.Errorf("%s has no text, or does not look at its arguments", c.CommandPath())
		}
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(Root(app.New("test", app.Streams{})))
}
