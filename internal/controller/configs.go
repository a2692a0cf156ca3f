package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
)

// ResourceType is the type of a resource with configs.
type ResourceType uint8

// The resources with configs that can be altered.
const (
	TopicResource ResourceType = iota + 1
	BrokerResource
	GroupResource
	SubscriptionResource
)

// Resource names a resource as in requests: a topic, a consumer group or a subscription to metrics
// of clients by its name, a broker by its id in decimal, all brokers by the empty name. A group
// need not exist; a subscription exists if it has configs.
type Resource struct {
	Type ResourceType
	Name string
}

// Op is an operation on one config, numbered as in IncrementalAlterConfigs (KIP-339).
type Op int8

// The operations. Append and Subtract are for lists.
const (
	Set      Op = 0
	Delete   Op = 1
	Append   Op = 2
	Subtract Op = 3
)

// ConfigOp is an operation on one config.
type ConfigOp struct {
	Name  string
	Op    Op
	Value *string // nil is allowed for Delete only
}

// AlterConfigs applies operations to a resource's configs, all or none. It returns the first
// revision that shows them, or 0 with validateOnly. If nothing changes, it writes nothing.
func (c *Controller) AlterConfigs(ctx context.Context, res Resource, ops []ConfigOp, validateOnly bool) (revision int64, err error) {
	if err := CheckOps(ops); err != nil {
		return 0, err
	}
	return c.changeConfigs(ctx, res, validateOnly, func(set map[string]string) error {
		for _, op := range ops {
			if err := c.apply(res.Type, set, op); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReplaceConfigs replaces all configs of a resource, as the older AlterConfigs request does. It
// refuses nil values.
func (c *Controller) ReplaceConfigs(ctx context.Context, res Resource, configs map[string]*string, validateOnly bool) (revision int64,
	err error) {
	ops := make([]ConfigOp, 0, len(configs))
	for name, value := range configs {
		ops = append(ops, ConfigOp{Name: name, Value: value})
	}
	if err := CheckOps(ops); err != nil {
		return 0, err
	}
	return c.changeConfigs(ctx, res, validateOnly, func(set map[string]string) error {
		clear(set)
		for _, op := range ops {
			set[op.Name] = *op.Value
		}
		return nil
	})
}

// CheckOps refuses operations that are invalid for every resource: a duplicate name, an unknown
// operation, a missing value.
func CheckOps(ops []ConfigOp) error {
	seen := make(map[string]bool, len(ops))
	var null []string
	for _, op := range ops {
		if seen[op.Name] {
			return refuse(InvalidRequest, "Error due to duplicate config keys")
		}
		seen[op.Name] = true
		if op.Op < Set || op.Op > Subtract {
			return refuse(InvalidRequest, "Unknown operations type %d", op.Op)
		}
		if op.Value == nil && op.Op != Delete {
			null = append(null, op.Name)
		}
	}
	if len(null) > 0 {
		slices.Sort(null)
		return refuse(InvalidRequest, "Null value not supported for : %s", strings.Join(null, ", "))
	}
	return nil
}

// apply applies one operation to set.
func (c *Controller) apply(t ResourceType, set map[string]string, op ConfigOp) error {
	switch op.Op {
	case Set:
		set[op.Name] = *op.Value
		return nil
	case Delete:
		delete(set, op.Name)
		return nil
	}
	def := c.opts.Configs.Topic(op.Name)
	switch t {
	case BrokerResource:
		def = c.opts.Configs.Broker(op.Name)
	case GroupResource:
		def = c.opts.Configs.GroupDef(op.Name)
	case SubscriptionResource:
		def = c.opts.Configs.SubscriptionDef(op.Name)
	}
	if def == nil || def.Type != configdef.List {
		verb := map[Op]string{Append: "APPEND", Subtract: "SUBTRACT"}[op.Op]
		return refuse(InvalidConfig, "Can't %s to key %s because its type is not LIST.", verb, op.Name)
	}
	current, ok := set[op.Name]
	if !ok {
		current = def.Default
	}
	list, given := entries(current), entries(*op.Value)
	if op.Op == Subtract {
		gone := setOf(given)
		list = slices.DeleteFunc(list, func(e string) bool { return gone[e] })
	} else {
		has := setOf(list)
		for _, e := range given {
			if !has[e] {
				has[e] = true
				list = append(list, e)
			}
		}
	}
	set[op.Name] = strings.Join(list, ",")
	return nil
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, e := range list {
		set[e] = true
	}
	return set
}

func entries(s string) []string {
	var list []string
	for e := range strings.SplitSeq(s, ",") {
		if e = strings.TrimSpace(e); e != "" {
			list = append(list, e)
		}
	}
	return list
}

// changeConfigs rewrites a resource's configs. As in Kafka, it checks the values before it checks
// whether the resource exists.
func (c *Controller) changeConfigs(ctx context.Context, res Resource, validateOnly bool,
	change func(map[string]string) error) (revision int64, err error) {
	err = c.retry(ctx, "alter configs of "+res.Name, func() error {
		key, exists, missing, err := c.locate(ctx, res)
		if err != nil {
			return err
		}
		var kv metadata.KV
		if key != "" {
			if kv, err = c.get(ctx, key); err != nil {
				return err
			}
		}
		before, err := metadata.DecodeConfigs(kv)
		if err != nil {
			return err
		}
		after := maps.Clone(before)
		if err := change(after); err != nil {
			return err
		}
		if err := c.checkConfigs(res, after); err != nil {
			return err
		}
		if missing != nil {
			return missing
		}
		if err := checkFixedConfigs(res, before, after); err != nil {
			return err
		}
		if err := c.checkRemote(res, before, after); err != nil {
			return err
		}
		remains, err := c.remains(ctx, res, key, before, after)
		if err != nil || validateOnly {
			return err
		}
		if res.Type == SubscriptionResource && len(after) > 0 {
			if err := c.roomForSubscription(ctx, before, after); err != nil {
				return err
			}
		}
		txn := metadata.Txn{If: slices.Concat(exists, remains, []metadata.Compare{unchanged(kv)})}
		switch {
		case maps.Equal(before, after):
		case len(after) == 0:
			txn.Delete = []string{key}
		default:
			txn.Put = []metadata.KV{{Key: key, Value: metadata.EncodeConfigs(after)}}
		}
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return revision, err
}

// remains refuses to drain a broker if no other one would take replicas: nothing could be created
// then. Otherwise it returns the condition that one of them still does. key is that of the configs.
func (c *Controller) remains(ctx context.Context, res Resource, key string, before, after map[string]string) ([]metadata.Compare,
	error) {
	if res.Type != BrokerResource || isDrained(before) || !isDrained(after) {
		return nil, nil
	}
	brokers, err := c.candidates(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range brokers {
		if b.fit.takes() && metadata.BrokerConfigKey(b.id) != key {
			return b.state, nil
		}
	}
	return nil, refuse(InvalidRequest, "Broker %s cannot be drained: no broker would remain that takes replicas. Start another one first.%s",
		res.Name, others(brokers))
}

// maxValue bounds the value of a config in bytes: APPEND could make a list as long as its senders
// like, and each change of it writes the whole list.
const maxValue = 256 << 10

func (c *Controller) checkConfigs(res Resource, set map[string]string) error {
	for name, value := range set {
		if len(value) > maxValue {
			return refuse(InvalidConfig, "The value of %s would have %d bytes, more than %d.", name, len(value), maxValue)
		}
	}
	switch res.Type {
	case TopicResource:
		return c.checkTopicConfigs(set)
	case GroupResource:
		if err := c.opts.Configs.CheckGroup(set, &c.opts.Groups); err != nil {
			return refuse(InvalidConfig, "%s", err)
		}
		return nil
	}
	if res.Type == SubscriptionResource {
		if err := c.opts.Configs.CheckSubscription(set); err != nil {
			return refuse(InvalidConfig, "%s", err)
		}
		return nil
	}
	// Kafka answers INVALID_REQUEST here (KAFKA-13609), and tools expect it.
	if err := c.opts.Configs.CheckDynamic(set, res.Name == ""); err != nil {
		return refuse(InvalidRequest, "%s", err)
	}
	return nil
}

// roomForSubscription refuses one more subscription to metrics of clients than there may be, and
// longer expressions than all may have together. Two brokers that change one at the same time may
// exceed a bound by one change. before is empty for a new one.
func (c *Controller) roomForSubscription(ctx context.Context, before, after map[string]string) error {
	kvs, _, err := c.opts.Store.Range(ctx, metadata.SubscriptionPrefix)
	if err != nil {
		return err
	}
	if len(before) == 0 && len(kvs) >= configdef.MaxSubscriptions {
		return refuse(InvalidRequest, "there are %d subscriptions to metrics of clients, the most there may be; delete one, or add to one",
			len(kvs))
	}
	more := c.instructions(after) - c.instructions(before)
	if more <= 0 {
		return nil
	}
	for _, kv := range kvs {
		set, err := metadata.DecodeConfigs(kv)
		if err != nil {
			return err
		}
		more += c.instructions(set)
	}
	if more > configdef.MaxPrograms {
		return refuse(InvalidConfig, "the expressions in match of all subscriptions would have %d instructions together, the limit is %d, "+
			"because a client is compared with all of them: shorten some, or delete a subscription", more, configdef.MaxPrograms)
	}
	return nil
}

// instructions returns the size of a subscription's expressions. One that is invalid, as another
// version has permitted, is not compared with clients.
func (c *Controller) instructions(set map[string]string) int {
	s, err := c.opts.Configs.ResolveSubscription(set)
	if err != nil {
		return 0
	}
	return s.Program
}

func (c *Controller) checkTopicConfigs(set map[string]string) error {
	if err := c.opts.Configs.CheckTopic(set); err != nil {
		return refuse(InvalidConfig, "%s", err)
	}
	return nil
}

// locate returns the key of a resource's configs and the condition that the resource still exists.
// If it does not exist, locate sets missing and returns an empty key.
func (c *Controller) locate(ctx context.Context, res Resource) (key string, exists []metadata.Compare, missing, err error) {
	switch {
	case res.Type == TopicResource:
		return c.locateTopic(ctx, res.Name)
	case res.Type == GroupResource && res.Name == "":
		return "", nil, nil, refuse(InvalidRequest, "Default group resources are not allowed.")
	case res.Type == GroupResource:
		return metadata.GroupConfigKey(res.Name), nil, nil, nil
	case res.Type == SubscriptionResource && res.Name == "":
		return "", nil, nil, refuse(InvalidRequest, "Subscription name can't be empty")
	case res.Type == SubscriptionResource:
		return metadata.SubscriptionKey(res.Name), nil, nil, nil
	case res.Type != BrokerResource:
		return "", nil, nil, refuse(InvalidRequest, "Unknown resource type %d", res.Type)
	case res.Name == "":
		return metadata.BrokerConfigKey(metadata.DefaultBroker), nil, nil, nil
	}
	id, err := strconv.ParseInt(res.Name, 10, 32)
	if err != nil {
		return "", nil, nil, refuse(InvalidRequest, "Node id must be an integer, but it is: %s", res.Name)
	}
	if id < 0 {
		return "", nil, nil, refuse(InvalidRequest, "Invalid negative broker ID.")
	}
	kv, err := c.get(ctx, metadata.BrokerKey(int32(id)))
	if err != nil {
		return "", nil, nil, err
	}
	if kv.ModRevision == 0 {
		return "", nil, brokerNotRegistered(int32(id)), nil
	}
	return metadata.BrokerConfigKey(int32(id)), nil, nil, nil
}

func (c *Controller) locateTopic(ctx context.Context, name string) (key string, exists []metadata.Compare, missing, err error) {
	if name == "" {
		return "", nil, nil, refuse(InvalidRequest, "Default topic resources are not allowed.")
	}
	if err := CheckTopicName(name); err != nil {
		return "", nil, nil, err
	}
	id, _, kv, err := c.topicByName(ctx, name)
	var refused *Error
	if errors.As(err, &refused) {
		return "", nil, refused, nil
	}
	if err != nil {
		return "", nil, nil, err
	}
	return metadata.TopicConfigKey(id), []metadata.Compare{unchanged(kv)}, nil, nil
}
