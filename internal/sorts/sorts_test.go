package sorts

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type pair struct{ key, at int }

func byKey(a, b pair) int { return cmp.Compare(a.key, b.key) }

// Sort and its siblings return what those of package slices return.
func TestSortsAsSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []pair
		for i, key := range rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "keys") {
			list = append(list, pair{key, i})
		}
		want := slices.Clone(list)
		slices.SortStableFunc(want, byKey)
		stable := slices.Clone(list)
		SortStable(stable, byKey)
		if !slices.Equal(stable, want) {
			t.Fatalf("%v, want %v", stable, want)
		}
		sorted := Sorted(slices.Values(list), byKey)
		if !slices.IsSortedFunc(sorted, byKey) || len(sorted) != len(list) {
			t.Fatalf("%v of %v", sorted, list)
		}
	})
}
