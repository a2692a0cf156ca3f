package config

import "strings"

// Nearest returns the known name that is most like name, and false where none
// is like it at all. Case and the kind of separator do not count.
func Nearest(name string, known []string) (string, bool) {
	plain := plainer().Replace(strings.ToLower(name))
	best, at := "", 1+len(plain)/3
	for _, k := range known {
		if d := distance(plain, plainer().Replace(k)); d < at || d == at && best == "" {
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

// unknown is the problem of a name that is not known.
func unknown(kind, name string, known []string, all string) string {
	if near, ok := Nearest(name, known); ok {
		return "unknown " + kind + "; did you mean " + near + "?"
	}
	return "unknown " + kind + "; " + all
}
