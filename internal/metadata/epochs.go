package metadata

import (
	"encoding/binary"
	"math"
)

// Within a generation of the metadata, a leader epoch is given once: the record of the partition
// ensures that. A restore forgets epochs that were given after the copy was made, and replicas that
// have records of them may be absent: no report of the others proves that an epoch is unused. So a
// number that the metadata did not give is exceeded by a gap, not by one, and is given again by
// chance only (docs/cluster.md).

// minGap is larger than the number of leader epochs, partition epochs or blocks of producer ids
// that are given between a copy and its restore.
const minGap = 1 << 20

// Gap returns what a generation of the metadata adds to a number that an earlier generation may
// have given: between one and two times minGap. Generations that begin with the same copy continue
// with different numbers. So if two halves of a cluster are recovered by mistake, the replicas of
// one find out that they do not have the records of the other.
func Gap(generation [16]byte) int32 {
	if (broken{}).Has(NoGap) {
		return 0
	}
	return int32(minGap + binary.BigEndian.Uint32(generation[12:])%minGap)
}

// NextEpoch returns the leader epoch that follows epoch, which the metadata gave, if replicas have
// records of the epochs up to seen, -1 for none. It reports false if no epochs are left.
func NextEpoch(epoch, seen int32, generation [16]byte) (next int32, ok bool) {
	add := int32(1)
	if seen > epoch {
		epoch, add = seen, Gap(generation)
	}
	if epoch > math.MaxInt32-add {
		return 0, false
	}
	return epoch + add, true
}

// Raised reports whether a leader epoch follows another one by a gap.
func Raised(from, to int32) bool { return to-from >= minGap }

// Raise asks for a higher leader epoch of a partition whose leader stays.
type Raise struct {
	From int32 // nothing changes if the partition has another epoch
	// Seen is the latest epoch in which replicas may have records, if it is above From.
	Seen int32
	// Lossy states that acknowledged records may be lost: the epoch begins as after an unclean
	// election.
	Lossy bool
}
