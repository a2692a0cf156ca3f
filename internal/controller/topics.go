package controller

import (
	"context"
	"errors"
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

// Outcome is what came of one of several topics that were to be created.
type Outcome struct {
	Created
	Err error
}

// CreateTopic creates a topic with its partitions and configs in one
// transaction. Refusals, in the order in which they are looked for: too many
// partitions (PolicyViolation), the name (InvalidTopic), a topic that has it
// (TopicExists) or collides with it (InvalidTopic), configs (InvalidConfig), then
// the numbers and assignments.
func (c *Controller) CreateTopic(ctx context.Context, spec TopicSpec) (Created, error) {
	o := c.CreateTopics(ctx, []TopicSpec{spec})[0]
	return o.Created, o.Err
}

// CreateTopics creates topics, all that are not refused in one transaction: what
// comes after it, such as the checkpoint of their logs, is then done once for all
// of them. Each has an outcome of its own, in the order of specs.
func (c *Controller) CreateTopics(ctx context.Context, specs []TopicSpec) []Outcome {
	out := make([]Outcome, len(specs))
	err := c.checkTotal(specs)
	if err == nil {
		err = c.retry(ctx, namesOf(specs), func() error { return c.create(ctx, specs, out) })
	}
	if errors.Is(err, metadata.ErrTooLarge) && len(specs) > 1 {
		half := len(specs) / 2
		return append(c.CreateTopics(ctx, specs[:half]), c.CreateTopics(ctx, specs[half:])...)
	}
	for i := range out {
		if err != nil && out[i].Err == nil {
			out[i] = Outcome{Err: err}
		}
	}
	return out
}

func namesOf(specs []TopicSpec) string {
	if len(specs) == 1 {
		return "create topic " + specs[0].Name
	}
	return fmt.Sprintf("create %d topics", len(specs))
}

// checkTotal refuses more partitions than one operation may make, before anything
// else is looked at, as Kafka does.
func (c *Controller) checkTotal(specs []TopicSpec) error {
	total := int64(0)
	for i := range specs {
		switch s := &specs[i]; {
		case len(s.Assignments) > 0:
			total += int64(len(s.Assignments))
		case s.Partitions == -1:
			total += int64(c.opts.NumPartitions)
		default:
			total += int64(max(s.Partitions, 0))
		}
	}
	return checkCount(total)
}

// create is one attempt at creating topics.
func (c *Controller) create(ctx context.Context, specs []TopicSpec, out []Outcome) error {
	brokers, err := c.brokers(ctx)
	if err != nil {
		return err
	}
	var txn metadata.Txn
	named := map[string]string{} // names that are taken here, by key
	for i := range specs {
		spec := &specs[i]
		free, err := c.freeName(ctx, spec.Name, named)
		var replicas [][]int32
		if err == nil {
			out[i], replicas, err = c.decide(spec, brokers)
		}
		var refused *Error
		switch {
		case errors.As(err, &refused):
			out[i] = Outcome{Err: err}
			continue
		case err != nil:
			return err
		}
		named[free.Key] = spec.Name
		if !spec.ValidateOnly {
			out[i].ID = metadata.NewID()
			addCreation(&txn, spec.Name, &out[i].Created, replicas, free)
		}
	}
	if len(txn.Put) == 0 {
		return nil
	}
	revision, err := c.opts.Store.Txn(ctx, txn)
	for i := range out {
		if out[i].ID != [16]byte{} {
			out[i].Revision = revision
		}
	}
	return err
}

// freeName returns the key of a name, which is free; an *Error where it is not.
func (c *Controller) freeName(ctx context.Context, name string, named map[string]string) (metadata.KV, error) {
	if err := CheckTopicName(name); err != nil {
		return metadata.KV{}, err
	}
	kv, err := c.get(ctx, metadata.NameKey(name))
	if err != nil {
		return kv, err
	}
	if other, taken := named[kv.Key]; taken {
		return kv, nameTakenBy(name, other)
	}
	if kv.ModRevision != 0 {
		return kv, nameTaken(name, kv)
	}
	return kv, nil
}

// decide says what a topic whose name is free will be.
func (c *Controller) decide(spec *TopicSpec, brokers []int32) (o Outcome, replicas [][]int32, err error) {
	configs, err := c.creationConfigs(spec.Configs)
	if err != nil {
		return o, nil, err
	}
	if replicas, err = c.assign(spec, brokers); err != nil {
		return o, nil, err
	}
	o.Created = Created{Partitions: int32(len(replicas)), ReplicationFactor: int16(len(replicas[0])), Configs: configs}
	return o, replicas, nil
}

func nameTaken(name string, kv metadata.KV) error {
	n, err := metadata.DecodeName(kv)
	if err != nil {
		return err
	}
	return nameTakenBy(name, n.Topic)
}

func nameTakenBy(name, other string) error {
	if other == name {
		return refuse(TopicExists, "Topic '%s' already exists.", name)
	}
	return refuse(InvalidTopic, "Topic '%s' collides with existing topic: %s", name, other)
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
func (c *Controller) assign(spec *TopicSpec, brokers []int32) ([][]int32, error) {
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
	if err := checkReplicationFactor(int(rf), brokers); err != nil {
		return nil, err
	}
	return spread(brokers, rand.IntN(len(brokers)), partitions, int(rf)), nil
}

func checkCount(partitions int64) error {
	if partitions > MaxPartitions {
		return refuse(PolicyViolation, "Excessively large number of partitions per request.")
	}
	return nil
}

func assignManually(spec *TopicSpec, brokers []int32) ([][]int32, error) {
	const head = "A manual partition assignment was specified, but "
	switch {
	case spec.ReplicationFactor != -1:
		return nil, refuse(InvalidRequest, head+"replication factor was not set to -1.")
	case spec.Partitions != -1:
		return nil, refuse(InvalidRequest, head+"numPartitions was not set to -1.")
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

// addCreation adds to a transaction what makes a topic, on the condition that its
// name is still free.
func addCreation(txn *metadata.Txn, name string, made *Created, replicas [][]int32, free metadata.KV) {
	txn.If = append(txn.If, unchanged(free))
	txn.Put = append(txn.Put,
		metadata.KV{Key: free.Key, Value: metadata.Name{Topic: name, ID: made.ID}.Encode()},
		metadata.KV{Key: metadata.TopicKey(made.ID), Value: metadata.TopicRecord{
			Name: name, Internal: IsInternal(name), Partitions: made.Partitions}.Encode()})
	for i, r := range replicas {
		txn.Put = append(txn.Put, metadata.KV{Key: metadata.PartitionKey(made.ID, int32(i)), Value: newPartition(r).Encode()})
	}
	if len(made.Configs) > 0 {
		txn.Put = append(txn.Put, metadata.KV{Key: metadata.TopicConfigKey(made.ID), Value: metadata.EncodeConfigs(made.Configs)})
	}
}
