package controller

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/metadata"
)

// TopicSpec is a topic to be created.
type TopicSpec struct {
	Name string
	// Partitions and ReplicationFactor: -1 for the default, or where Assignments
	// say it.
	Partitions        int32
	ReplicationFactor int16
	// Assignments, where there are any, name the replicas of every partition.
	Assignments []Assignment
	// Configs are overrides; a nil value is refused.
	Configs map[string]*string
	// ValidateOnly: check everything, change nothing.
	ValidateOnly bool
}

// Created describes a topic as it was, or with ValidateOnly would be, created.
type Created struct {
	ID                [16]byte // zero with ValidateOnly
	Revision          int64    // the version from which on it exists; 0 with ValidateOnly
	Partitions        int32
	ReplicationFactor int16
	Configs           map[string]string
}

// CreateTopic creates a topic with its partitions and configs in one
// transaction. Refusals, in the order in which they are looked for: the name
// (InvalidTopic), a topic that has it (TopicExists) or collides with it
// (InvalidTopic), configs (InvalidConfig), then the numbers and assignments.
func (c *Controller) CreateTopic(ctx context.Context, spec TopicSpec) (Created, error) {
	if err := CheckTopicName(spec.Name); err != nil {
		return Created{}, err
	}
	var done Created
	err := c.retry(ctx, "create topic "+spec.Name, func() error {
		taken, err := c.get(ctx, metadata.NameKey(spec.Name))
		if err != nil {
			return err
		}
		if taken.ModRevision != 0 {
			return nameTaken(spec.Name, taken)
		}
		configs, err := c.creationConfigs(spec.Configs)
		if err != nil {
			return err
		}
		brokers, err := c.brokers(ctx)
		if err != nil {
			return err
		}
		replicas, err := c.assign(spec, brokers)
		if err != nil {
			return err
		}
		done = Created{Partitions: int32(len(replicas)), ReplicationFactor: int16(len(replicas[0])), Configs: configs}
		if spec.ValidateOnly {
			return nil
		}
		done.ID = metadata.NewID()
		done.Revision, err = c.opts.Store.Txn(ctx, creation(spec.Name, done.ID, replicas, configs, taken))
		return err
	})
	if err != nil {
		return Created{}, err
	}
	return done, nil
}

func nameTaken(name string, kv metadata.KV) error {
	n, err := metadata.DecodeName(kv)
	if err != nil {
		return err
	}
	if n.Topic == name {
		return refuse(TopicExists, "Topic '%s' already exists.", name)
	}
	return refuse(InvalidTopic, "Topic '%s' collides with existing topic: %s", name, n.Topic)
}

func (c *Controller) creationConfigs(given map[string]*string) (map[string]string, error) {
	configs := make(map[string]string, len(given))
	var null []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if given[name] == nil {
			null = append(null, name)
			continue
		}
		configs[name] = *given[name]
	}
	if len(null) > 0 {
		return nil, refuse(InvalidConfig, "Null value not supported for topic configs: %s", strings.Join(null, ","))
	}
	return configs, c.checkTopicConfigs(configs)
}

// assign decides on the replicas of every partition.
func (c *Controller) assign(spec TopicSpec, brokers []int32) ([][]int32, error) {
	if len(spec.Assignments) > 0 {
		return assignManually(spec, brokers)
	}
	partitions, rf := spec.Partitions, spec.ReplicationFactor
	switch {
	case rf < -1 || rf == 0:
		return nil, refuse(InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case partitions < -1 || partitions == 0:
		return nil, refuse(InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	if partitions == -1 {
		partitions = c.opts.NumPartitions
	}
	if rf == -1 {
		rf = c.opts.ReplicationFactor
	}
	if err := checkCount(partitions); err != nil {
		return nil, err
	}
	if err := checkReplicationFactor(int(rf), brokers); err != nil {
		return nil, err
	}
	return spread(brokers, rand.IntN(len(brokers)), partitions, int(rf)), nil
}

func checkCount(partitions int32) error {
	if partitions > MaxPartitionsPerTopic {
		return refuse(PolicyViolation, "Excessively large number of partitions per request.")
	}
	return nil
}

func assignManually(spec TopicSpec, brokers []int32) ([][]int32, error) {
	const head = "A manual partition assignment was specified, but "
	switch {
	case spec.ReplicationFactor != -1:
		return nil, refuse(InvalidRequest, head+"replication factor was not set to -1.")
	case spec.Partitions != -1:
		return nil, refuse(InvalidRequest, head+"numPartitions was not set to -1.")
	}
	if err := checkCount(int32(min(len(spec.Assignments), MaxPartitionsPerTopic+1))); err != nil {
		return nil, err
	}
	out := make([][]int32, len(spec.Assignments))
	seen, rf, gap := make(map[int32]bool, len(out)), 0, false
	for _, a := range spec.Assignments {
		if seen[a.Partition] {
			return nil, refuse(InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		seen[a.Partition] = true
		if err := checkReplicas(a.Brokers, brokers, rf); err != nil {
			return nil, err
		}
		rf = len(a.Brokers)
		if a.Partition < 0 || int(a.Partition) >= len(out) {
			gap = true
			continue
		}
		out[a.Partition] = slices.Clone(a.Brokers)
	}
	if gap {
		return nil, refuse(InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
	}
	return out, nil
}

// creation is the transaction that makes a topic, on the condition that its name
// is still free.
func creation(name string, id [16]byte, replicas [][]int32, configs map[string]string, free metadata.KV) metadata.Txn {
	txn := metadata.Txn{
		If: []metadata.Compare{unchanged(free)},
		Put: []metadata.KV{
			{Key: free.Key, Value: metadata.Name{Topic: name, ID: id}.Encode()},
			{Key: metadata.TopicKey(id), Value: metadata.TopicRecord{
				Name: name, Internal: IsInternal(name), Partitions: int32(len(replicas))}.Encode()},
		},
	}
	for i, r := range replicas {
		txn.Put = append(txn.Put, metadata.KV{Key: metadata.PartitionKey(id, int32(i)), Value: newPartition(r).Encode()})
	}
	if len(configs) > 0 {
		txn.Put = append(txn.Put, metadata.KV{Key: metadata.TopicConfigKey(id), Value: metadata.EncodeConfigs(configs)})
	}
	return txn
}

// DeleteTopic removes a topic with its partitions and configs, and leaves a
// tombstone, in one transaction. UnknownTopicID: there is no such topic.
func (c *Controller) DeleteTopic(ctx context.Context, id [16]byte) (revision int64, err error) {
	err = c.retry(ctx, "delete topic "+metadata.FormatID(id), func() error {
		rec, kv, err := c.topicByID(ctx, id)
		if err != nil {
			return err
		}
		txn := metadata.Txn{
			If:     []metadata.Compare{unchanged(kv)},
			Put:    []metadata.KV{{Key: metadata.DeletingKey(id), Value: metadata.Deleting{Name: rec.Name, Partitions: rec.Partitions}.Encode()}},
			Delete: []string{kv.Key, metadata.NameKey(rec.Name), metadata.TopicConfigKey(id)},
		}
		for i := range rec.Partitions {
			txn.Delete = append(txn.Delete, metadata.PartitionKey(id, i))
		}
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return revision, err
}

// ForgetDeleted removes the tombstone of a topic whose logs are gone from every
// disk, durably. A tombstone that is gone already is no error.
func (c *Controller) ForgetDeleted(ctx context.Context, id [16]byte) (revision int64, err error) {
	revision, err = c.opts.Store.Txn(ctx, metadata.Txn{Delete: []string{metadata.DeletingKey(id)}})
	if err != nil {
		return 0, fmt.Errorf("forget deleted topic %s: %w", metadata.FormatID(id), err)
	}
	return revision, nil
}
