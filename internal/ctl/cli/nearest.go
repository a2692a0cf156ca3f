package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nearFlag is the flag of the command that is most like name; empty for none.
func nearFlag(cmd *cobra.Command, name string) string {
	best, at := "", 2+len(name)/4
	look := func(f *pflag.Flag) {
		if d := distance(name, f.Name); d < at && !f.Hidden {
			best, at = f.Name, d
		}
	}
	cmd.Flags().VisitAll(look)
	cmd.InheritedFlags().VisitAll(look)
	return best
}

// distance counts the letters to insert, remove or replace between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
