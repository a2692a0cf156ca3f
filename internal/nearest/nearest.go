// Package nearest finds the name that was probably meant by one that is not known.
//
// It knows nothing of what the names are of; the code that refuses a setting, a flag or
// a command calls it.
package nearest

import "strings"

// Closest returns the known name that is most like name, and false if none is near: at most
// a third of its letters differ, but one always may. Case and the kind of separator do
// not count.
func Closest(name string, known []string) (string, bool) {
	plain := plainer().Replace(strings.ToLower(name))
	if plain == "" {
		return "", false
	}
	best, at := "", max(1, len(plain)/3)+1
	for _, k := range known {
		if d := distance(plain, plainer().Replace(strings.ToLower(k))); d < at {
			best, at = k, d
		}
	}
	return best, best != ""
}

func plainer() *strings.Replacer { return strings.NewReplacer("_", ".", "-", ".") }

// distance counts the letters to insert, remove or replace between a and b, and the
// neighbours to exchange.
func distance(a, b string) int {
	var before []int // the row before the last one
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
