// Package parse reads the values that people write on chronikctl's command line: times, offsets,
// partitions, name=value pairs, files of offsets.
//
// An error quotes the value and says what to write instead. The package contacts no broker and
// knows the current time only from its callers.
package parse

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// KeyValue splits name=value. The name must not be empty; the value may contain "=".
func KeyValue(s string) (name, value string, err error) {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return "", "", fmt.Errorf("%q is not name=value", s)
	}
	return name, value, nil
}

// KeyValues splits a list of name=value. Names must be unique.
func KeyValues(list []string) (map[string]string, error) {
	m := make(map[string]string, len(list))
	for _, s := range list {
		name, value, err := KeyValue(s)
		if err != nil {
			return nil, err
		}
		if _, twice := m[name]; twice {
			return nil, fmt.Errorf("%q is given twice", name)
		}
		m[name] = value
	}
	return m, nil
}

// maxPartitions bounds a list of partitions, to catch typing mistakes.
const maxPartitions = 100_000

// Partitions parses 3 or 0,2,5-7. The result is sorted without duplicates, and nil for "".
func Partitions(s string) ([]int32, error) {
	if s == "" {
		return nil, nil
	}
	var all []int32
	for _, part := range strings.Split(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 31)
		to, err2 := strconv.ParseUint(last, 10, 31)
		if err1 != nil || err2 != nil || to < from || to-from >= maxPartitions || len(all) >= maxPartitions {
			return nil, fmt.Errorf("%q is not a partition or a range of partitions; write 3 or 0,2,5-7", part)
		}
		for p := from; p <= to; p++ {
			all = append(all, int32(p))
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// TopicPartitions parses TOPIC or TOPIC:PARTITIONS. No partitions means all.
func TopicPartitions(s string) (topic string, partitions []int32, err error) {
	topic, list, some := strings.Cut(s, ":")
	if topic == "" || some && list == "" {
		return "", nil, fmt.Errorf("%q is neither TOPIC nor TOPIC:PARTITIONS; write orders or orders:0,2,5-7", s)
	}
	partitions, err = Partitions(list)
	return topic, partitions, err
}
