package view

import "testing"

// A lag never counts offsets below the log start, and exceeds what is left by no more than finished
// offsets that may be below it.
func TestLagBetween(t *testing.T) {
	const gap = 1 << 46 // of a partition that was restored without records
	for what, c := range map[string]struct{ committed, finished, start, end, want int64 }{
		"behind":                            {5, 0, 0, 9, 4},
		"ahead of a truncated log":          {12, 0, 0, 9, 0},
		"a log start above":                 {1, 0, 3, 9, 6},
		"a gap below the log":               {7, 0, gap, gap, 0},
		"a gap, and records since":          {7, 0, gap, gap + 3, 3},
		"finished offsets":                  {5, 2, 0, 17, 10},
		"finished offsets below the start":  {5, 2, 15, 17, 2},
		"some finished ones are above it":   {5, 4, 6, 17, 8},
		"a gap below a share group's":       {5, 2, gap, gap + 1, 1},
		"the log start is not known (zero)": {5, 2, 0, 7, 0},
	} {
		if got := LagBetween(c.committed, c.finished, c.start, c.end); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
}
