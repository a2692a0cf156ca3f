package controller

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/chronik-io/chronik/internal/metadata"
)

// PartitionsSpec asks for more partitions of a topic.
type PartitionsSpec struct {
	Topic string
	Count int32 // the new total
	// Assignments, if there are any, are the replicas of each new partition.
	Assignments [][]int32
	// ValidateOnly checks everything and changes nothing.
	ValidateOnly bool
}

// CreatePartitions adds partitions to a topic in one transaction. With ValidateOnly the revision is
// 0.
func (c *Controller) CreatePartitions(ctx context.Context, spec PartitionsSpec) (revision int64, err error) {
	err = c.retry(ctx, "create partitions of topic "+spec.Topic, func() error {
		id, rec, kv, err := c.topicByName(ctx, spec.Topic)
		if err != nil {
			return err
		}
		replicas, err := c.assignMore(ctx, spec, id, rec.Partitions)
		if err != nil || spec.ValidateOnly {
			return err
		}
		txn := metadata.Txn{If: []metadata.Compare{unchanged(kv)}}
		for i, r := range replicas {
			key := metadata.PartitionKey(id, rec.Partitions+int32(i))
			txn.Put = append(txn.Put, metadata.KV{Key: key, Value: newPartition(r).Encode()})
		}
		rec.Partitions = spec.Count
		txn.Put = append(txn.Put, metadata.KV{Key: kv.Key, Value: rec.Encode()})
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return revision, err
}

// assignMore chooses the replicas of the new partitions.
func (c *Controller) assignMore(ctx context.Context, spec PartitionsSpec, id [16]byte, have int32) ([][]int32, error) {
	add := int64(spec.Count) - int64(have)
	switch {
	case add == 0:
		return nil, refuse(InvalidPartitions, "Topic already has %d partition(s).", have)
	case add < 0:
		return nil, refuse(InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", spec.Topic, have,
			spec.Count)
	case len(spec.Assignments) > 0 && int64(len(spec.Assignments)) != add:
		return nil, refuse(InvalidReplicaAssignment,
			"Attempted to add %d additional partition(s), but only %d assignment(s) were specified.",
			add, len(spec.Assignments))
	}
	if err := checkCount(add); err != nil {
		return nil, err
	}
	kv, err := c.get(ctx, metadata.PartitionKey(id, 0))
	if err != nil {
		return nil, err
	}
	if kv.ModRevision == 0 {
		return nil, refuse(UnknownTopic, "The topic '%s' does not exist.", spec.Topic) // deleted meanwhile
	}
	first, err := metadata.DecodePartition(kv)
	if err != nil {
		return nil, err
	}
	brokers, err := c.brokers(ctx)
	if err != nil {
		return nil, err
	}
	rf := len(first.Replicas)
	if len(spec.Assignments) == 0 {
		if err := checkReplicationFactor(rf, brokers); err != nil {
			return nil, err
		}
		return spread(brokers, rand.IntN(len(brokers)), int32(add), rf), nil
	}
	for _, a := range spec.Assignments {
		if err := checkReplicas(a, brokers, rf); err != nil {
			return nil, err
		}
	}
	return spec.Assignments, nil
}

// RaiseEpochs raises the leader epochs of partitions in one transaction (I9). A broker calls it
// after an unclean stop, before the first append. It omits partitions that no longer exist. The
// Image at the returned revision shows the new epochs.
func (c *Controller) RaiseEpochs(ctx context.Context, partitions []metadata.TopicPartition) (revision int64, err error) {
	return c.changePartitions(ctx, "raise leader epochs", partitions, func(_ metadata.TopicPartition, p *metadata.Partition) error {
		if p.LeaderEpoch == math.MaxInt32 {
			return refuse(InvalidRequest, "the leader epoch cannot be raised any more")
		}
		p.LeaderEpoch++
		return nil
	})
}

// AssignDirs records the log directories of a broker's replicas in one transaction. It omits
// partitions that no longer exist or have no replica on the broker.
func (c *Controller) AssignDirs(ctx context.Context, broker int32, dirs map[metadata.TopicPartition][16]byte) (revision int64, err error) {
	partitions := make([]metadata.TopicPartition, 0, len(dirs))
	for tp := range dirs {
		partitions = append(partitions, tp)
	}
	return c.changePartitions(ctx, "assign log directories", partitions, func(tp metadata.TopicPartition, p *metadata.Partition) error {
		for i, r := range p.Replicas {
			if r == broker {
				p.Dirs[i] = dirs[tp]
			}
		}
		return nil
	})
}

// changePartitions rewrites partitions in one transaction. If there is nothing to change, it
// returns the store's revision.
func (c *Controller) changePartitions(ctx context.Context, what string, partitions []metadata.TopicPartition,
	change func(metadata.TopicPartition, *metadata.Partition) error) (revision int64, err error) {
	err = c.retry(ctx, what, func() error {
		var txn metadata.Txn
		for _, tp := range partitions {
			kv, err := c.get(ctx, metadata.PartitionKey(tp.Topic, tp.Partition))
			if err != nil {
				return err
			}
			if kv.ModRevision == 0 {
				continue
			}
			p, err := metadata.DecodePartition(kv)
			if err != nil {
				return err
			}
			before := string(p.Encode())
			if err := change(tp, &p); err != nil {
				return err
			}
			if string(p.Encode()) == before {
				continue
			}
			p.PartitionEpoch++
			txn.If = append(txn.If, unchanged(kv))
			txn.Put = append(txn.Put, metadata.KV{Key: kv.Key, Value: p.Encode()})
		}
		var err error
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return revision, err
}
