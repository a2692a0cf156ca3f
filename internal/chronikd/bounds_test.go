package chronikd

import (
	"regexp"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The help of each flag with a number or a duration names the values that the flag accepts: all of
// them refuse some.
func TestHelpNamesTheBoundsOfNumbers(t *testing.T) {
	number, bounds := regexp.MustCompile(`^(u?int|float|duration|bytes)`), regexp.MustCompile(`at least \d|\d\S* to \d`)
	flags := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !number.MatchString(f.Value.Type()) {
				return
			}
			if flags++; !bounds.MatchString(f.Usage) {
				t.Errorf("%s --%s: %s", c.CommandPath(), f.Name, f.Usage)
			}
		})
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(command(Process{}, nil))
	if flags < 3 {
		t.Errorf("only %d flags were found", flags)
	}
}
