package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ManPage is a manual page (man(7)) made of the texts that --help prints. It escapes the texts,
// so that the page shows every character as it is.
type ManPage struct {
	// Name and Section make the file name: chronikd, 8.
	Name    string
	Section int
	// Version goes into the footer.
	Version string
	// Short is the line that apropos searches.
	Short string
	// Command, if set, provides synopsis, description, options and commands.
	Command *cobra.Command
	// Sections follow those that Command provides.
	Sections []ManSection
}

// ManSection is a section of a page: plain text, then a list.
type ManSection struct {
	Title string // EXIT STATUS
	Text  string // paragraphs, separated by empty lines
	Items []ManItem
}

// ManItem is an entry of a list.
type ManItem struct{ Term, Text string }

// File returns the page's file name: chronikd.8.
func (p *ManPage) File() string { return fmt.Sprintf("%s.%d", p.Name, p.Section) }

// Write writes the page in roff.
func (p *ManPage) Write(w io.Writer) error {
	var r roff
	r.line(".TH %s %d %s %s %s", quote(strings.ToUpper(p.Name)), p.Section, `""`, quote("chronik "+p.Version), quote("chronik"))
	r.line(".SH NAME")
	r.line(`%s \- %s`, escape(p.Name), escape(p.Short))
	if p.Command != nil {
		r.command(p.Command)
	}
	for _, part := range p.Sections {
		r.line(".SH %s", quote(part.Title))
		r.text(part.Text)
		for _, i := range part.Items {
			r.item(i.Term, i.Text)
		}
	}
	_, err := io.WriteString(w, r.String())
	return err
}

// roff builds a page.
type roff struct{ strings.Builder }

func (r *roff) line(format string, args ...any) { fmt.Fprintf(r, format+"\n", args...) }

// text writes paragraphs. It keeps the line breaks of indented lines.
func (r *roff) text(s string) {
	plain := false
	verbatim := func(on bool) {
		if on != plain {
			r.line(map[bool]string{true: ".nf", false: ".fi"}[on])
			plain = on
		}
	}
	for line := range strings.Lines(strings.TrimSpace(s)) {
		line = strings.TrimRight(line, "\n ")
		if line == "" {
			verbatim(false)
			r.line(".PP")
			continue
		}
		verbatim(strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t"))
		r.line("%s", escape(line))
	}
	verbatim(false)
}

// item writes a list entry.
func (r *roff) item(term, text string) {
	r.line(".TP")
	r.line(".B %s", escape(term))
	r.text(text)
}

// command writes synopsis, description, options and all subcommands of a tool.
func (r *roff) command(c *cobra.Command) {
	c.InitDefaultHelpFlag()
	r.line(".SH SYNOPSIS")
	r.line(".B %s", escape(c.UseLine()))
	r.line(".SH DESCRIPTION")
	r.text(about(c))
	if c.HasAvailableLocalFlags() || c.HasAvailablePersistentFlags() {
		r.line(".SH OPTIONS")
		r.flags(c.LocalFlags())
	}
	if subs := below(c); len(subs) > 0 {
		r.line(".SH COMMANDS")
		for _, sub := range subs {
			r.line(".SS %s", quote(sub.UseLine()))
			r.text(about(sub))
			r.flags(sub.LocalFlags())
			if sub.Example != "" {
				r.line(".PP")
				r.text("  " + strings.TrimSpace(sub.Example))
			}
		}
	}
}

// below returns the commands below c that can be run, in the order of --help.
func below(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.Name() == "help" {
			continue
		}
		if !sub.HasAvailableSubCommands() {
			all = append(all, sub)
		}
		all = append(all, below(sub)...)
	}
	return all
}

func about(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return strings.TrimSuffix(c.Short, ".") + "."
}

func (r *roff) flags(set *pflag.FlagSet) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		term := "--" + f.Name
		if f.Shorthand != "" {
			term = "-" + f.Shorthand + ", " + term
		}
		value, usage := pflag.UnquoteUsage(f)
		if value != "" {
			term += " " + value
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" && !strings.Contains(usage, "default") {
			usage += " (default " + f.DefValue + ")"
		}
		r.item(term, usage)
	})
}

// escape returns s such that roff prints it unchanged.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

// quote returns s as one argument of a roff request.
func quote(s string) string { return `"` + strings.ReplaceAll(escape(s), `"`, `""`) + `"` }
