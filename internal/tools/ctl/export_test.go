package ctl

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Unlisted returns the commands that no line begins with.
func Unlisted(lines []string) []string { return unlisted(Root(app.New("test", app.Streams{})), lines) }

// Flags calls f for each flag of each command; for those that all commands have, with one of them.
func Flags(f func(*cobra.Command, *pflag.Flag)) {
	global := false
	leaves(Root(app.New("test", app.Streams{})), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(flag *pflag.Flag) { f(c, flag) })
		if c.CommandPath() == "chronikctl topic list" {
			c.InheritedFlags().VisitAll(func(flag *pflag.Flag) { f(c, flag) })
			global = true
		}
	})
	if !global {
		panic("no command topic list")
	}
}
