package controller

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

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
		brokers, err := c.candidates(ctx)
		if err != nil {
			return err
		}
		replicas, err := c.assignMore(ctx, spec, id, rec.Partitions, brokers)
		if err != nil || spec.ValidateOnly {
			return err
		}
		txn := metadata.Txn{If: []metadata.Compare{unchanged(kv)}}
		addPartitions(&txn, id, rec.Partitions, replicas, brokers)
		rec.Partitions = spec.Count
		txn.Put = append(txn.Put, metadata.KV{Key: kv.Key, Value: rec.Encode()})
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return revision, err
}

// assignMore chooses the replicas of the new partitions.
func (c *Controller) assignMore(ctx context.Context, spec PartitionsSpec, id [16]byte, have int32, brokers []candidate) ([][]int32,
	error) {
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
	if err := CheckCount(add); err != nil {
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
	rf := len(first.Target())
	if len(spec.Assignments) == 0 {
		return spread(brokers, int32(add), rf)
	}
	for _, a := range spec.Assignments {
		if err := cmp.Or(checkReplicas(a, nil, brokers, rf), checkFit(a, brokers)); err != nil {
			return nil, err
		}
	}
	return spec.Assignments, nil
}

// RaiseEpochs raises the leader epochs of partitions in one transaction (I9). Their leaders stay. A
// broker calls it for the partitions that it leads and whose log, or whose transactions, know an
// epoch that the metadata should not give: that of another generation; and for those in which an
// unclean election passed over its replica (metadata.Partition.PassedOver). RaiseEpochs omits
// partitions that no longer exist or have another epoch by now, and those that have no epochs left,
// so that the others do not wait for them. The Image at the returned revision shows the new epochs.
func (c *Controller) RaiseEpochs(ctx context.Context, partitions map[metadata.TopicPartition]metadata.Raise) (revision int64, err error) {
	cluster, err := c.get(ctx, metadata.ClusterKey)
	if err != nil {
		return 0, err
	}
	record, err := metadata.DecodeCluster(cluster)
	if err != nil {
		return 0, err
	}
	list := slices.Collect(maps.Keys(partitions))
	return c.changePartitions(ctx, "raise leader epochs", list, func(tp metadata.TopicPartition, p *metadata.Partition) error {
		x := partitions[tp]
		if p.LeaderEpoch != x.From {
			return nil
		}
		next, ok := metadata.NextEpoch(x.From, x.Seen, record.Generation)
		if !ok {
			return nil
		}
		was := *p
		if p.LeaderEpoch = next; x.Lossy {
			p.Unclean = p.LeaderEpoch
		}
		if !was.Lost() && was.Unclean > 0 && x.Lossy && metadata.Raised(was.LeaderEpoch, next) {
			p.Confirmed = p.Unclean // the raised epoch has the loss that was confirmed, and no other
		}
		return nil
	})
}

// AssignDirs records the log directories of a broker's replicas in one transaction; a zero id
// removes what is recorded of a former replica. It omits partitions that do not exist, and removals
// of replicas that were assigned to the broker again.
func (c *Controller) AssignDirs(ctx context.Context, broker int32, dirs map[metadata.TopicPartition][16]byte) (revision int64, err error) {
	topics := map[[16]byte]map[int32][16]byte{}
	for tp, dir := range dirs {
		if topics[tp.Topic] == nil {
			topics[tp.Topic] = map[int32][16]byte{}
		}
		topics[tp.Topic][tp.Partition] = dir
	}
	err = c.retry(ctx, "assign log directories", func() error {
		var txn metadata.Txn
		if err := c.addOwn(ctx, &txn, broker); err != nil {
			return err
		}
		for id, changes := range topics {
			if err := c.addPlacement(ctx, &txn, broker, id, changes); err != nil {
				return err
			}
		}
		var err error
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return revision, err
}

// addPlacement adds a broker's log directories of one topic's replicas to a transaction, under the
// condition that the topic still exists: otherwise the placement would never be removed.
func (c *Controller) addPlacement(ctx context.Context, txn *metadata.Txn, broker int32, id [16]byte, changes map[int32][16]byte) error {
	rec, topic, err := c.topicByID(ctx, id)
	var refused *Error
	if errors.As(err, &refused) {
		return nil // deleted
	}
	if err != nil {
		return err
	}
	kv, err := c.get(ctx, metadata.PlacementKey(broker, id))
	if err != nil {
		return err
	}
	before, err := metadata.DecodePlacement(kv)
	if err != nil {
		return err
	}
	changes = maps.Clone(changes)
	maps.DeleteFunc(changes, func(partition int32, dir [16]byte) bool {
		was, _ := before.Dir(partition)
		return partition < 0 || partition >= rec.Partitions || was == dir
	})
	if err := c.addRemovals(ctx, txn, broker, id, changes); err != nil || len(changes) == 0 {
		return err
	}
	txn.If = append(txn.If, unchanged(topic), unchanged(kv))
	if after := before.With(changes); after.IsEmpty() {
		txn.Delete = append(txn.Delete, kv.Key)
	} else {
		txn.Put = append(txn.Put, metadata.KV{Key: kv.Key, Value: after.Encode()})
	}
	return nil
}

// addRemovals drops the removals of replicas that the broker has again, and adds the condition that
// the others do not come back. A removal whose outcome was unknown may be made late: it would hide
// from the next registration in which directory the new log was.
func (c *Controller) addRemovals(ctx context.Context, txn *metadata.Txn, broker int32, id [16]byte, changes map[int32][16]byte) error {
	for partition, dir := range changes {
		if dir != [16]byte{} {
			continue
		}
		kv, err := c.get(ctx, metadata.PartitionKey(id, partition))
		if err != nil {
			return err
		}
		if kv.ModRevision != 0 { // otherwise the topic has been deleted since it was read, and refuses the transaction
			p, err := metadata.DecodePartition(kv)
			if err != nil {
				return err
			}
			if p.HasReplica(broker) {
				delete(changes, partition)
				continue
			}
		}
		txn.If = append(txn.If, unchanged(kv))
	}
	return nil
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
