// Package race lets tests ask whether the race detector watches them. It makes code ten times as
// slow, gives a process a shadow of its memory, and finds little in the later ones of many similar
// histories: so tests try fewer of them then, and allow more memory. It does not know what they
// try.
package race

// Some returns how many of n similar histories a test tries: n, or few under the race detector.
func Some(n, few int) int {
	if Detector {
		return few
	}
	return n
}
