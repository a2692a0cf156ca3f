package controller

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/sorts"
)

// Recovered returns the metadata of a cluster of which the last changes may be lost, as the first
// state of another generation.
//
// The lost changes may have moved leaderships and shrunk ISRs. So nothing that was recorded about
// partitions with several replicas counts: they have no leader and no ISR until an operator asks
// for an unclean election, which compares the logs of the replicas that are there. The replica with
// the largest epoch and end has every acknowledged record, if all replicas take part. Its epoch is
// that of its last record, or a later one in which it led: a leader commits nothing before its log
// notes its epoch, because the records that it commits may all be of older ones.
func Recovered(keys []metadata.KV, revision int64, generation [16]byte, now time.Time) (after []metadata.KV, at int64, err error) {
	return again(keys, revision, generation, outset{
		drops:   []metadata.Scope{metadata.OfProcesses},
		cluster: func(c *metadata.Cluster) { c.Recovered = now.UnixMilli() },
		partition: func(p *metadata.Partition) {
			if len(p.Replicas) > 1 {
				p.ISR, p.ELR, p.Last = nil, nil, metadata.LastReplica{}
			}
		},
	})
}

// Successor is what a restored cluster does not have in common with the one of its snapshot.
type Successor struct {
	Cluster    string   // its id, FormatID's text
	Generation [16]byte // of its metadata
	Node       int32    // its only broker
}

// Restored returns the metadata of a snapshot as the first state of a cluster of its own, which has
// one broker. That has the log of each partition as it was at the cut.
//
// The original cluster may run on, and clients may have seen what it did after the cut. So nothing
// that it may have given since is given again: leader epochs, producer ids and revisions. The epoch
// of each partition counts as one in which acknowledged records may be missing: for the clients of
// the original they are. Coordinators then treat what they load as doubtful.
func Restored(keys []metadata.KV, revision int64, s Successor) (after []metadata.KV, at int64, err error) {
	confirms := false
	return again(keys, revision, s.Generation, outset{
		drops: []metadata.Scope{metadata.OfProcesses, metadata.OfBrokers, metadata.OfObjects},
		cluster: func(c *metadata.Cluster) { // its key is before those of partitions
			c.Recovered, c.ID = 0, s.Cluster
			confirms = c.FeatureLevel >= metadata.ConfirmLevel
		},
		partition: func(p *metadata.Partition) {
			p.Replicas, p.ISR = []int32{s.Node}, []int32{s.Node}
			p.ELR, p.Adding, p.Removing, p.Last = nil, nil, nil, metadata.LastReplica{}
			// The first leader begins later than two epochs after that: records that the original
			// wrote after the cut are no loss that brokers must report.
			confirmed := confirms && !p.Lost()
			if p.Unclean, p.LeaderEpoch = p.LeaderEpoch, p.LeaderEpoch+2; confirmed {
				p.Confirmed = p.Unclean
			}
		},
	})
}

// outset is how the first state of another generation differs from the last known one of
// another, in addition to numbers that are not given twice.
type outset struct {
	drops     []metadata.Scope
	cluster   func(*metadata.Cluster)
	partition func(*metadata.Partition)
}

// again returns metadata as the first state of another generation, at a revision that the former
// one has not reached.
func again(keys []metadata.KV, revision int64, generation [16]byte, s outset) (after []metadata.KV, at int64, err error) {
	gap := metadata.Gap(generation)
	if revision > math.MaxInt64-int64(gap) {
		return nil, 0, errors.New("no revisions of the metadata are left")
	}
	at = revision + int64(gap)
	ids := metadata.KV{Key: metadata.ProducerIDsKey, Value: metadata.ProducerIDs{}.Encode()}
	for _, kv := range keys {
		k, err := metadata.ParseKey(kv.Key)
		if err != nil {
			return nil, 0, err
		}
		if slices.Contains(s.drops, k.Kind.Scope()) {
			continue
		}
		switch k.Kind {
		case metadata.KindCluster:
			c, err := metadata.DecodeCluster(kv)
			if err != nil {
				return nil, 0, err
			}
			s.cluster(&c)
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
			s.partition(&p)
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
	sorts.Sort(after, func(a, b metadata.KV) int { return cmp.Compare(a.Key, b.Key) })
	return after, at, nil
}

// producerSpread is by how many bits gaps of producer ids are larger than those of epochs.
const producerSpread = 16

// producerGap is metadata.Gap for producer ids, of which there are more: whole blocks, and so many
// that two generations that begin with the same copy practically never give the same ones.
func producerGap(generation [16]byte) int64 {
	return int64(metadata.Gap(generation)) << producerSpread * ProducerIDBlockSize
}
