package logs

import (
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/inspect"
)

// An internal topic has many partitions, and damage to a directory affects all of them alike.
// Tables for people show them as one line; -o wide and -o json show each partition.

// fold groups items by key, in the order of each group's first item. Items with an empty key are
// groups of their own.
func fold[T any](items []T, key func(*T) string) [][]*T {
	var groups [][]*T
	at := map[string]int{}
	for i := range items {
		k := key(&items[i])
		if g, ok := at[k]; ok && k != "" {
			groups[g] = append(groups[g], &items[i])
			continue
		}
		at[k] = len(groups)
		groups = append(groups, []*T{&items[i]})
	}
	return groups
}

// foldable returns the key of a partition of an internal topic for fold, or "" for any other
// partition.
func foldable(wide bool, topic string, more ...any) string {
	if wide || !inspect.Internal(topic) {
		return ""
	}
	return fmt.Sprint(append([]any{topic, "\x00"}, more...)...)
}

// span names partitions of one topic: "t-0 … -49 (50)".
func span(topic string, partitions []int32) string {
	slices.Sort(partitions)
	partitions = slices.Compact(partitions)
	n := len(partitions)
	switch {
	case topic == "" || n == 0:
		return ""
	case n == 1:
		return fmt.Sprintf("%s-%d", topic, partitions[0])
	case int(partitions[n-1]-partitions[0]) == n-1:
		return fmt.Sprintf("%s-%d … -%d (%d)", topic, partitions[0], partitions[n-1], n)
	}
	return fmt.Sprintf("%s (%d partitions)", topic, n)
}

// common returns the text if all are the same, otherwise how many of them are not empty.
func common(texts []string) string {
	said := slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" })
	distinct := slices.Compact(slices.Sorted(slices.Values(texts)))
	switch {
	case len(distinct) == 1:
		return distinct[0]
	case len(said) == 0:
		return ""
	}
	return fmt.Sprintf("in %d of them; -o wide shows each", len(said))
}
