package controller

import (
	"slices"

	"github.com/chronik-io/chronik/internal/metadata"
)

// Assignment names the replicas of one partition, the preferred leader first.
type Assignment struct {
	Partition int32
	Brokers   []int32
}

// spread assigns replicas to partitions: the leaders are assigned round-robin, and the followers
// are the brokers after their leader. brokers must have at least rf entries.
func spread(brokers []int32, start int, partitions int32, rf int) [][]int32 {
	out := make([][]int32, partitions)
	for i := range out {
		for j := range rf {
			out[i] = append(out[i], brokers[(start+i+j)%len(brokers)])
		}
	}
	return out
}

// checkReplicationFactor refuses a replication factor above the number of registered brokers.
func checkReplicationFactor(rf int, brokers []int32) error {
	if rf <= len(brokers) {
		return nil
	}
	return refuse(InvalidReplicationFactor, "Unable to replicate the partition %d time(s): The target replication factor of %d cannot be "+
		"reached because only %d broker(s) are registered.", rf, rf, len(brokers))
}

// CheckReplicas refuses invalid replicas of one partition: none, an unregistered broker, or a
// duplicate. The error is an *Error.
func CheckReplicas(replicas, brokers []int32) error { return checkReplicas(replicas, brokers, 0) }

// checkReplicas refuses an invalid manual assignment of one partition. rf is the replication factor
// of the earlier partitions, 0 for the first.
func checkReplicas(replicas, brokers []int32, rf int) error {
	const head = "The manual partition assignment includes "
	if len(replicas) == 0 {
		return refuse(InvalidReplicaAssignment, head+"an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, b := range sorted {
		if !slices.Contains(brokers, b) {
			return refuse(InvalidReplicaAssignment, head+"broker %d, but no such broker is registered.", b)
		}
		if i > 0 && sorted[i-1] == b {
			return refuse(InvalidReplicaAssignment, head+"the broker %d more than once.", b)
		}
	}
	if rf > 0 && rf != len(replicas) {
		return refuse(InvalidReplicaAssignment, head+"a partition with %d replica(s), but this is not consistent with previous "+
			"partitions, which have %d replica(s).", len(replicas), rf)
	}
	return nil
}

// newPartition returns a new partition: all replicas are in sync, and none has a log directory.
func newPartition(replicas []int32) metadata.Partition {
	return metadata.Partition{
		Leader: replicas[0], Replicas: replicas, ISR: slices.Clone(replicas), Dirs: make([][16]byte, len(replicas)),
	}
}
