// Package sorts sorts lists of structs that are not in a hurry.
//
// slices.SortFunc compiles the whole algorithm again for each type, 8 to 25 kB: those of the lists
// that operators see had 1.4 MB in the two programs of the image, which may have 50. Sort costs a
// few hundred bytes for each type, and about twice the time. The result is sorted as by package
// slices: SortStable leaves equal elements in their order, and Sort does not. The package does not
// know what it sorts.
package sorts

import (
	"iter"
	"slices"
	"sort"
)

// Sort is slices.SortFunc.
func Sort[E any](list []E, cmp func(a, b E) int) { sort.Sort(&sorter[E]{list, cmp}) }

// SortStable is slices.SortStableFunc.
func SortStable[E any](list []E, cmp func(a, b E) int) { sort.Stable(&sorter[E]{list, cmp}) }

// Sorted is slices.SortedFunc.
func Sorted[E any](seq iter.Seq[E], cmp func(a, b E) int) []E {
	list := slices.Collect(seq)
	Sort(list, cmp)
	return list
}

// sorter implements sort.Interface.
type sorter[E any] struct {
	list []E
	cmp  func(a, b E) int
}

// Len implements sort.Interface.
func (s *sorter[E]) Len() int { return len(s.list) }

// Less implements sort.Interface.
func (s *sorter[E]) Less(i, j int) bool { return s.cmp(s.list[i], s.list[j]) < 0 }

// Swap implements sort.Interface.
func (s *sorter[E]) Swap(i, j int) { s.list[i], s.list[j] = s.list[j], s.list[i] }
