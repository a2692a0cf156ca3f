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
	for _, u := range utf16.Encode([]rune(key)) {
		h = 31*h + int32(u)
	}
	if h == math.MinInt32 {
		return 0 // its absolute value is not an int32
	}
	return max(h, -h) % count
}
