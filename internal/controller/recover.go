package controller

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// Recovered returns the metadata of a cluster of which the last changes may be lost, as the first
// state of another generation.
//
// The lost changes may have moved leaderships and shrunk ISRs. So nothing that was recorded about
// partitions with several replicas counts: they have no leader and no ISR until an operator asks
// for an unclean election, which compares the logs of the replicas that are there. The replica with
// the largest last epoch and end has every acknowledged record, if all replicas take part.
func Recovered(keys []metadata.KV, revision int64, generation [16]byte) (after []metadata.KV, at int64, err error) {
	gap := metadata.Gap(generation)
	at = revision + int64(gap)
	ids := metadata.KV{Key: metadata.ProducerIDsKey, Value: metadata.ProducerIDs{}.Encode()}
	for _, kv := range keys {
		k, err := metadata.ParseKey(kv.Key)
		if err != nil {
			return nil, 0, err
		}
		switch k.Kind {
		case metadata.KindLiveness:
			continue // of processes of the former generation
		case metadata.KindCluster:
			c, err := metadata.DecodeCluster(kv)
			if err != nil {
				return nil, 0, err
			}
			c.Generation = generation
			kv.Value, kv.ModRevision = c.Encode(), at
		case metadata.KindProducerIDs:
			ids = kv
			continue
		case metadata.KindPartition:
			p, err := metadata.DecodePartition(kv)
			if err != nil {
				return nil, 0, err
			}
			if p.LeaderEpoch > math.MaxInt32-gap || p.PartitionEpoch > math.MaxInt32-gap {
				return nil, 0, fmt.Errorf("%s: no leader epochs are left", kv.Key)
			}
			p.Leader, p.LeaderEpoch, p.PartitionEpoch = election.None, p.LeaderEpoch+gap, p.PartitionEpoch+gap
			if len(p.Replicas) > 1 {
				p.ISR, p.ELR, p.Last = nil, nil, metadata.LastReplica{}
			}
			kv.Value, kv.ModRevision = p.Encode(), at
		}
		after = append(after, kv)
	}
	next, err := metadata.DecodeProducerIDs(ids)
	if err != nil {
		return nil, 0, err
	}
	if next.Next > math.MaxInt64-producerGap(generation) {
		return nil, 0, fmt.Errorf("%s: no producer ids are left", ids.Key)
	}
	next.Next += producerGap(generation)
	ids.Value, ids.ModRevision = next.Encode(), at
	after = append(after, ids)
	slices.SortFunc(after, func(a, b metadata.KV) int { return cmp.Compare(a.Key, b.Key) })
	return after, at, nil
}

// producerSpread is by how many bits gaps of producer ids are larger than those of epochs.
const producerSpread = 16

// producerGap is metadata.Gap for producer ids, of which there are more: whole blocks, and so many
// that two generations that begin with the same copy practically never give the same ones.
func producerGap(generation [16]byte) int64 {
	return int64(metadata.Gap(generation)) << producerSpread * ProducerIDBlockSize
}
