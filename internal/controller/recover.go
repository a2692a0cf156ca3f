package controller

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// recoveryGap is added to all numbers that must never be given twice, because the changes that are
// lost may have given some: leader epochs, partition epochs, producer ids and revisions. Between
// one and two gaps are added, depending on the generation: if two halves of a cluster are recovered
// by mistake, the replicas of one find out that they do not have the records of the other.
const recoveryGap = 1 << 20

// Recovered returns the metadata of a cluster of which the last changes may be lost, as the first
// state of another generation.
//
// The lost changes may have moved leaderships and shrunk ISRs. So nothing that was recorded about
// partitions with several replicas counts: they have no leader and no ISR until an operator asks
// for an unclean election, which compares the logs of the replicas that are there. The replica with
// the largest last epoch and end has every acknowledged record, if all replicas take part.
func Recovered(keys []metadata.KV, revision int64, generation [16]byte) (after []metadata.KV, at int64, err error) {
	gap := int32(recoveryGap + binary.BigEndian.Uint32(generation[12:])%recoveryGap)
	at = revision + int64(gap)
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
			ids, err := metadata.DecodeProducerIDs(kv)
			if err != nil {
				return nil, 0, err
			}
			if ids.Next > math.MaxInt64-int64(gap)*ProducerIDBlockSize {
				return nil, 0, fmt.Errorf("%s: no producer ids are left", kv.Key)
			}
			ids.Next += int64(gap) * ProducerIDBlockSize
			kv.Value, kv.ModRevision = ids.Encode(), at
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
	return after, at, nil
}
