// Package nearest finds the name that was probably meant by one that nobody knows.
//
// It knows nothing of what the names are of; whoever refuses a setting, a flag or
// a command calls it.
package nearest

import "strings"

// Name returns the known name that is most like name, and false where none is like
// it at all. Case and the kind of separator do not count.
func Name(name string, known []string) (string, bool) {
	plain := plainer().Replace(strings.ToLower(name))
	best, at := "", 1+len(plain)/3
	for _, k := range known {
		if d := distance(plain, plainer().Replace(strings.ToLower(k))); d < at || d == at && best == "" {
			best, at = k, d
		}
	}
	return best, best != ""
}

func plainer() *strings.Replacer { return strings.NewReplacer("_", ".", "-", ".") }

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
