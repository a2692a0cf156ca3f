package text

import "strings"

// Closest returns the known name that is most similar to name, and false if none is close:
// at most a third of the letters may differ, but always at least one. It ignores case and
// treats ".", "_" and "-" as equal.
func Closest(name string, known []string) (string, bool) {
	plain := normalize(name)
	if plain == "" {
		return "", false
	}
	best, at := "", max(1, len(plain)/3)+1
	for _, k := range known {
		if d := distance(plain, normalize(k)); d < at {
			best, at = k, d
		}
	}
	return best, best != ""
}

func normalize(name string) string {
	return strings.NewReplacer("_", ".", "-", ".").Replace(strings.ToLower(name))
}

// distance returns the number of letters to insert, remove, replace or swap with a neighbour
// to turn a into b (optimal string alignment distance).
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
