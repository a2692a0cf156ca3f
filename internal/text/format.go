package text

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Bytes returns a size in binary units, with one decimal unless that is 0: "1.5 KiB",
// "64 MiB". It rounds down, so that free space never reads as more than there is.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	i := (bits.Len64(uint64(n)) - 1) / 10
	unit := uint64(1) << (10 * i)
	if tenths := uint64(n) % unit * 10 / unit; tenths > 0 {
		return fmt.Sprintf("%d.%d %ciB", uint64(n)/unit, tenths, units[i-1])
	}
	return fmt.Sprintf("%d %ciB", uint64(n)/unit, units[i-1])
}

// Number returns a whole number with a comma between each three digits: "1,234,567".
func Number[T int | int32 | int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	first := 0
	if n < 0 {
		first = 1
	}
	for i := len(s) - 3; i > first; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count returns a number with its noun, which takes an s in the plural: "1 topic",
// "1,200 topics".
func Count[T int | int32 | int64](n T, noun string) string { return Plural(n, noun, noun+"s") }

// Plural returns a number with the noun for one thing or for many: "2 directories".
func Plural[T int | int32 | int64](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(n) + " " + many
}

// Numbers returns numbers separated by commas: "1,2,3".
func Numbers(list []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
}
