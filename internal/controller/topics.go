package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/metadata"
)

// TopicSpec describes a topic to be created.
type TopicSpec struct {
	Name string
	// Partitions and ReplicationFactor are -1 for the default, or if Assignments are given.
	Partitions        int32
	ReplicationFactor int16
	// Assignments, if there are any, name the replicas of every partition.
	Assignments []Assignment
	// Configs are overrides; nil values are refused.
	Configs map[string]*string
	// ValidateOnly checks everything and changes nothing.
	ValidateOnly bool
}

// Created describes a topic that was created, or would be without ValidateOnly.
type Created struct {
	ID                [16]byte // zero with ValidateOnly
	Revision          int64    // the first version that shows it; 0 with ValidateOnly
	Partitions        int32
	ReplicationFactor int16
	Configs           map[string]string
}

// Outcome is the result for one of several topics.
type Outcome struct {
	Created
	Err error
}

// CreateTopic creates a topic with its partitions and configs in one transaction. It checks, in
// this order: the number of partitions (PolicyViolation), the name (InvalidTopic), whether the name
// is taken (TopicExists) or collides with another (InvalidTopic), the configs (InvalidConfig), and
// then the numbers and assignments.
func (c *Controller) CreateTopic(ctx context.Context, spec TopicSpec) (Created, error) {
	o := c.CreateTopics(ctx, []TopicSpec{spec})[0]
	return o.Created, o.Err
}

// CreateTopics creates all topics that are not refused in one transaction, so that the following
// work, such as the checkpoint of their logs, is done once for all. The outcomes are in the order
// of specs.
func (c *Controller) CreateTopics(ctx context.Context, specs []TopicSpec) []Outcome {
	out := make([]Outcome, len(specs))
	err := c.CheckTotal(specs)
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

// CheckTotal refuses too many partitions in one operation before any other check, as Kafka does.
func (c *Controller) CheckTotal(specs []TopicSpec) error {
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
	return CheckCount(total)
}

// create makes one attempt at creating topics.
func (c *Controller) create(ctx context.Context, specs []TopicSpec, out []Outcome) error {
	brokers, err := c.candidates(ctx)
	if err != nil {
		return err
	}
	var txn metadata.Txn
	named := map[string]string{} // names taken by earlier specs, by key
	for i := range specs {
		spec := &specs[i]
		free, err := c.freeName(ctx, spec.Name, named)
		var replicas [][]int32
		if err == nil {
			out[i], replicas, err = c.plan(spec, brokers)
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
			addCreation(&txn, spec.Name, &out[i].Created, replicas, brokers, free)
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

// freeName returns the key of a name if the name is free, otherwise an *Error.
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

// plan determines the partitions, replicas and configs of a topic whose name is free.
func (c *Controller) plan(spec *TopicSpec, brokers []candidate) (o Outcome, replicas [][]int32, err error) {
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
	return &Error{Kind: InvalidTopic, Msg: fmt.Sprintf("Topic '%s' collides with existing topic: %s", name, other), Other: other}
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
	if err := c.checkTopicConfigs(configs); err != nil {
		return nil, err
	}
	return configs, c.checkRemote(Resource{Type: TopicResource}, nil, configs)
}

// assign chooses the replicas of every partition.
func (c *Controller) assign(spec *TopicSpec, brokers []candidate) ([][]int32, error) {
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
		takers := 0
		for _, b := range brokers {
			if b.fit.takes() {
				takers++
			}
		}
		rf = int16(defaultReplicas(int(c.opts.ReplicationFactor), c.opts.Seeds, takers, len(brokers)-takers))
	}
	return spread(brokers, partitions, int(rf))
}

// CheckCount refuses more partitions than one operation may create.
func CheckCount(partitions int64) error {
	if partitions > MaxPartitions {
		return refuse(PolicyViolation, "Excessively large number of partitions per request. At most %d can be created at once.",
			MaxPartitions)
	}
	return nil
}

func assignManually(spec *TopicSpec, brokers []candidate) ([][]int32, error) {
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
		if err := cmp.Or(checkReplicas(a.Brokers, nil, brokers, rf), checkFit(a.Brokers, brokers)); err != nil {
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

// addCreation adds a topic's creation to a transaction, under the condition that its name is still
// free.
func addCreation(txn *metadata.Txn, name string, made *Created, replicas [][]int32, brokers []candidate, free metadata.KV) {
	txn.If = append(txn.If, unchanged(free))
	txn.Put = append(txn.Put,
		metadata.KV{Key: free.Key, Value: metadata.Name{Topic: name, ID: made.ID}.Encode()},
		metadata.KV{Key: metadata.TopicKey(made.ID), Value: metadata.TopicRecord{
			Name: name, Internal: metadata.IsInternal(name), Partitions: made.Partitions}.Encode()})
	addPartitions(txn, made.ID, 0, replicas, brokers)
	if len(made.Configs) > 0 {
		txn.Put = append(txn.Put, metadata.KV{Key: metadata.TopicConfigKey(made.ID), Value: metadata.EncodeConfigs(made.Configs)})
	}
}
