package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/nearest"
)

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
	near, _ := nearest.Name(name, known)
	return near
}
