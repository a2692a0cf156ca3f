package coordinator

import (
	"math"
	"unicode/utf16"
)

// PartitionFor returns the partition, out of count, that key belongs to: Kafka's
// abs(key.hashCode()) % count. Clients don't compute it, but topics written by Kafka must keep
// their layout.
func PartitionFor(key string, count int32) int32 {
	var h int32
	for _, r := range key { // allocates nothing: three times for each transaction
		if utf16.RuneLen(r) == 2 {
			var first rune
			first, r = utf16.EncodeRune(r)
			h = 31*h + first
		}
		h = 31*h + r
	}
	if h == math.MinInt32 {
		return 0 // its absolute value is not an int32
	}
	return max(h, -h) % count
}
