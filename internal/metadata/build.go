package metadata

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// Load builds the image of a whole store from the result of Range. Unknown keys and values of
// unknown versions are errors.
func Load(kvs []KV, revision int64) (*Image, error) {
	b := newBuilder(Empty())
	for _, kv := range kvs {
		if err := b.put(kv); err != nil {
			return nil, err
		}
	}
	next, _, err := b.done(revision)
	return next, err
}

// Apply builds the image after transactions whose revisions follow the image's without a gap, and
// the difference. The cost grows with the size of the changes, not of the image. Of a key that
// changes repeatedly, only the last value counts: a topic that is created and deleted again appears
// only as a tombstone.
func (m *Image) Apply(batches ...Batch) (*Image, *Delta, error) {
	b := newBuilder(m)
	revision := m.version
	last := lastEvents(batches)
	for i := range batches {
		batch := &batches[i]
		if batch.Revision != revision+1 {
			return nil, nil, fmt.Errorf("metadata history has revision %d after %d", batch.Revision, revision)
		}
		revision = batch.Revision
		for j, e := range batch.Events {
			if last != nil && last[e.Key] != (position{i, j}) {
				continue
			}
			var err error
			if e.Deleted {
				err = b.remove(e.Key)
			} else {
				err = b.put(KV{Key: e.Key, Value: e.Value, ModRevision: batch.Revision})
			}
			if err != nil {
				return nil, nil, fmt.Errorf("metadata revision %d: %w", batch.Revision, err)
			}
		}
	}
	return b.done(revision)
}

// builder collects changes relative to one image.
type builder struct {
	prev    *Image
	next    Image
	topics  map[[16]byte]*topicEdit
	names   *shardsEdit[string, *Topic]
	ids     *shardsEdit[[16]byte, *Topic]
	deleted *shardsEdit[[16]byte, *Deleting]
	groups  *shardsEdit[string, brokerConfig]
	subs    *shardsEdit[string, brokerConfig]
	placed  *shardsEdit[BrokerTopic, *Placement]
	acls    *shardsEdit[[16]byte, acl.Binding]
	users   *shardsEdit[string, *User]
	quotas  *shardsEdit[quota.Entity, Quota]
	tiers   *shardsEdit[TopicPartition, *Tier]
	tombs   map[[16]byte]*tombEdit
	delta   Delta
}

// topicEdit is a transaction's changes to one topic.
type topicEdit struct {
	record     *TopicRecord
	revision   int64
	removed    bool
	partitions map[int32]*Partition // nil: the key was deleted
	config     *brokerConfig
}

// tombEdit is a transaction's changes to the tombstone of one topic.
type tombEdit struct {
	record  *Deleting // nil: unchanged
	removed bool
	brokers map[int32]bool // true: has to confirm; false: has confirmed
}

func newBuilder(prev *Image) *builder {
	return &builder{
		prev: prev, next: *prev, topics: map[[16]byte]*topicEdit{},
		names: prev.topics.edit(), ids: prev.byID.edit(), deleted: prev.deleting.edit(),
		groups: prev.groups.edit(), subs: prev.subscriptions.edit(), placed: prev.placed.edit(), acls: prev.acls.edit(),
		users: prev.users.edit(), quotas: prev.quotas.edit(), tiers: prev.tiers.edit(),
		tombs: map[[16]byte]*tombEdit{},
	}
}

func (b *builder) topic(id [16]byte) *topicEdit {
	e := b.topics[id]
	if e == nil {
		e = &topicEdit{partitions: map[int32]*Partition{}}
		b.topics[id] = e
	}
	return e
}

func (b *builder) tomb(id [16]byte) *tombEdit {
	e := b.tombs[id]
	if e == nil {
		e = &tombEdit{brokers: map[int32]bool{}}
		b.tombs[id] = e
	}
	return e
}

// put adds the new value of a key.
func (b *builder) put(kv KV) error {
	k, err := ParseKey(kv.Key)
	if err != nil {
		return err
	}
	switch k.Kind {
	case KindCluster:
		b.next.cluster, err = DecodeCluster(kv)
		b.delta.Cluster = true
	case KindProducerIDs:
		_, err = DecodeProducerIDs(kv)
	case KindName:
		_, err = DecodeName(kv)
	case KindBroker:
		err = b.putBroker(kv)
	case KindTopic:
		var r TopicRecord
		r, err = DecodeTopicRecord(kv)
		e := b.topic(k.ID)
		e.record, e.revision, e.removed = &r, kv.ModRevision, false
	case KindPartition:
		var p Partition
		p, err = DecodePartition(kv)
		b.topic(k.ID).partitions[k.Partition] = &p
	case KindTopicConfig:
		var set map[string]string
		set, err = DecodeConfigs(kv)
		b.topic(k.ID).config = &brokerConfig{set: set, revision: kv.ModRevision}
	case KindBrokerConfig:
		var set map[string]string
		set, err = DecodeConfigs(kv)
		b.setBrokerConfig(k.Broker, &brokerConfig{set: set, revision: kv.ModRevision})
	case KindGroupConfig:
		var set map[string]string
		set, err = DecodeConfigs(kv)
		b.groups.set(k.Name, brokerConfig{set: set, revision: kv.ModRevision})
		b.delta.GroupConfigs = append(b.delta.GroupConfigs, k.Name)
	case KindSubscription:
		var set map[string]string
		set, err = DecodeConfigs(kv)
		b.subs.set(k.Name, brokerConfig{set: set, revision: kv.ModRevision})
		b.delta.Subscriptions = true
	case KindDeleting:
		var d Deleting
		d, err = DecodeDeleting(kv)
		e := b.tomb(k.ID)
		e.record, e.removed = &d, false
	case KindDeletingBroker:
		_, err = decode[header](kv)
		b.tomb(k.ID).brokers[k.Broker] = true
	case KindLiveness:
		var state BrokerState
		state, err = DecodeState(kv)
		b.setLiveness(k.Broker, &stateAt{state, kv.ModRevision})
	case KindPlacement:
		err = b.putPlacement(BrokerTopic{k.Broker, k.ID}, kv)
	case KindGone:
		var g Gone
		g, err = DecodeGone(kv)
		b.next.gone = edited(b.next.gone, k.Member, &g.Broker)
	case KindACL:
		err = b.putACL(k.ID, kv)
	case KindUser:
		err = b.putUser(kv)
	case KindLogins:
		b.next.logins, err = DecodeLogins(kv)
		b.delta.Logins = true
	case KindQuota:
		err = b.putQuota(k.Entity, kv)
	case KindSnapshot:
		err = b.putSnapshot(kv)
	case KindMark:
		_, err = DecodeMark(kv)
	case KindCollection:
		_, err = DecodeCollection(kv)
		b.next.collection, b.delta.Snapshots = kv.ModRevision, true
	case KindTier:
		err = b.putTier(TopicPartition{Topic: k.ID, Partition: k.Partition}, kv)
	case KindObjectStore:
		b.next.objectStore, err = DecodeObjectStore(kv)
	}
	return err
}

func (b *builder) putPlacement(at BrokerTopic, kv KV) error {
	p, err := DecodePlacement(kv)
	b.placed.set(at, &p)
	b.delta.Placements = append(b.delta.Placements, at)
	return err
}

// remove adds the deletion of a key.
func (b *builder) remove(key string) error {
	k, err := ParseKey(key)
	if err != nil {
		return err
	}
	switch k.Kind {
	case KindCluster:
		b.next.cluster, b.delta.Cluster = Cluster{}, true
	case KindBroker:
		b.next.brokers = slices.DeleteFunc(slices.Clone(b.next.brokers), func(x Broker) bool { return x.ID == k.Broker })
		b.delta.Brokers = true
	case KindTopic:
		b.topic(k.ID).removed = true
	case KindPartition:
		b.topic(k.ID).partitions[k.Partition] = nil
	case KindTopicConfig:
		b.topic(k.ID).config = &brokerConfig{}
	case KindBrokerConfig:
		b.setBrokerConfig(k.Broker, nil)
	case KindGroupConfig:
		if _, ok := b.prev.groups.get(k.Name); ok {
			b.groups.delete(k.Name)
			b.delta.GroupConfigs = append(b.delta.GroupConfigs, k.Name)
		}
	case KindSubscription:
		if _, ok := b.prev.subscriptions.get(k.Name); ok {
			b.subs.delete(k.Name)
			b.delta.Subscriptions = true
		}
	case KindGone:
		b.next.gone = edited(b.next.gone, k.Member, nil)
	case KindDeleting:
		b.tomb(k.ID).removed = true
	case KindDeletingBroker:
		b.tomb(k.ID).brokers[k.Broker] = false
	case KindLiveness:
		b.setLiveness(k.Broker, nil)
	case KindPlacement:
		if at := (BrokerTopic{k.Broker, k.ID}); b.placed.shard(at)[at] != nil {
			b.placed.delete(at)
			b.delta.Placements = append(b.delta.Placements, at)
		}
	case KindACL:
		b.removeACL(k.ID)
	case KindUser:
		b.removeUser(k.Name)
	case KindLogins:
		b.next.logins, b.delta.Logins = Logins{}, true
	case KindQuota:
		b.removeQuota(k.Entity)
	case KindSnapshot:
		b.removeSnapshot(k.Number)
	case KindMark:
	case KindCollection:
		b.next.collection, b.delta.Snapshots = 0, true
	case KindTier:
		b.removeTier(TopicPartition{Topic: k.ID, Partition: k.Partition})
	case KindObjectStore:
		b.next.objectStore = ObjectStore{}
	}
	return nil
}

func (b *builder) setLiveness(id int32, l *stateAt) {
	b.next.liveness = edited(b.next.liveness, id, l)
	b.delta.Liveness = append(b.delta.Liveness, id)
}

func (b *builder) setBrokerConfig(id int32, c *brokerConfig) {
	b.next.configs = edited(b.next.configs, id, c)
	b.delta.BrokerConfigs = append(b.delta.BrokerConfigs, id)
}

// edited returns a copy of a map with another value of a key, nil to remove it.
func edited[K comparable, V any](m map[K]V, k K, v *V) map[K]V {
	next := maps.Clone(m)
	switch {
	case v == nil:
		delete(next, k)
	case next == nil:
		next = map[K]V{k: *v}
	default:
		next[k] = *v
	}
	return next
}

func (b *builder) putBroker(kv KV) error {
	broker, err := DecodeBroker(kv)
	if err != nil {
		return err
	}
	list := slices.Clone(b.next.brokers)
	i, ok := slices.BinarySearchFunc(list, broker.ID, func(x Broker, id int32) int { return cmp.Compare(x.ID, id) })
	if ok {
		list[i] = broker
	} else {
		list = slices.Insert(list, i, broker)
	}
	b.next.brokers, b.delta.Brokers = list, true
	return nil
}

// done builds the new image from the changes.
func (b *builder) done(revision int64) (*Image, *Delta, error) {
	for _, id := range sortIDs(maps.Keys(b.topics)) {
		if err := b.applyTopic(id, b.topics[id]); err != nil {
			return nil, nil, err
		}
	}
	for _, id := range sortIDs(maps.Keys(b.tombs)) {
		if err := b.applyTomb(id, b.tombs[id]); err != nil {
			return nil, nil, err
		}
	}
	next := b.next
	next.version, next.placed, next.acls = revision, b.placed.done(), b.acls.done()
	next.users, next.quotas = b.users.done(), b.quotas.done()
	next.topics, next.byID, next.deleting, next.groups = b.names.done(), b.ids.done(), b.deleted.done(), b.groups.done()
	next.subscriptions, next.tiers = b.subs.done(), b.tiers.done()
	if next.topics.len() != next.byID.len() {
		return nil, nil, fmt.Errorf("revision %d: %d topics have %d names, two of them share one", revision, next.byID.len(),
			next.topics.len())
	}
	if len(b.delta.Created) > 0 || len(b.delta.Deleted) > 0 {
		next.sorted = new(sortedNames)
	}
	b.delta.sort()
	return &next, &b.delta, nil
}

// applyTomb applies the changes to a tombstone. A broker that has to confirm the deletion of a
// topic without a tombstone is an error: the store is damaged or incomplete.
func (b *builder) applyTomb(id [16]byte, e *tombEdit) error {
	prev := b.prev.Deleting(id)
	waiting := map[int32]bool{}
	if prev != nil {
		for _, broker := range prev.Brokers {
			waiting[broker] = true
		}
	}
	for broker, waits := range e.brokers {
		waiting[broker] = waits
	}
	maps.DeleteFunc(waiting, func(_ int32, waits bool) bool { return !waits })
	gone := e.removed || prev == nil && e.record == nil
	switch {
	case gone && len(waiting) > 0:
		return fmt.Errorf("topic %s has no tombstone, but brokers have not confirmed its deletion", FormatID(id))
	case gone && prev != nil:
		b.deleted.delete(id)
		b.delta.Forgotten = append(b.delta.Forgotten, id)
		return nil
	case gone:
		return nil
	}
	next := cmp.Or(e.record, prev)
	copied := *next
	copied.Brokers = slices.Sorted(maps.Keys(waiting))
	b.deleted.set(id, &copied)
	if prev == nil {
		b.delta.Tombstones = append(b.delta.Tombstones, &copied)
	}
	return nil
}

func (b *builder) applyTopic(id [16]byte, e *topicEdit) error {
	prev := b.prev.TopicByID(id)
	if e.removed {
		if prev != nil {
			b.ids.delete(id)
			if t, ok := b.names.shard(prev.Name)[prev.Name]; ok && t.ID == id {
				b.names.delete(prev.Name) // unless another topic took the name in this transaction
			}
			b.delta.Deleted = append(b.delta.Deleted, prev)
		}
		return nil
	}
	next, err := e.build(id, prev)
	if err != nil {
		return err
	}
	b.ids.set(id, next)
	b.names.set(next.Name, next)
	if prev == nil {
		b.delta.Created = append(b.delta.Created, next)
		return nil
	}
	b.delta.Changed = append(b.delta.Changed, TopicChange{
		Prev: prev, Next: next, Partitions: slices.Sorted(maps.Keys(e.partitions)), Config: e.config != nil,
	})
	return nil
}

// build makes the topic after the edit. Every partition that the record counts must exist:
// otherwise the store is damaged or incomplete.
func (e *topicEdit) build(id [16]byte, prev *Topic) (*Topic, error) {
	next := Topic{ID: id}
	if prev != nil {
		next = *prev
	}
	count := next.Partitions.Len()
	if e.record != nil {
		next.Name, next.Internal, next.Revision = e.record.Name, e.record.Internal, e.revision
		count = e.record.Partitions
	}
	if next.Name == "" {
		return nil, fmt.Errorf("topic %s has partitions or configs but no record", FormatID(id))
	}
	if e.config != nil {
		next.Configs, next.ConfigRevision = e.config.set, e.config.revision
	}
	had := next.Partitions.Len()
	if count < had {
		return nil, fmt.Errorf("topic %s (%s) shrinks from %d to %d partitions", next.Name, FormatID(id), had, count)
	}
	fresh := int32(0)
	for i, p := range e.partitions {
		if p == nil || i >= count {
			return nil, fmt.Errorf("topic %s (%s) has %d partitions, partition %d is missing or beyond", next.Name, FormatID(id), count, i)
		}
		if i >= had {
			fresh++
		}
	}
	if fresh != count-had {
		return nil, fmt.Errorf("topic %s (%s) has %d partitions, %d of them are missing", next.Name, FormatID(id), count, count-had-fresh)
	}
	if len(e.partitions) > 0 {
		next.Partitions = next.Partitions.with(count, e.partitions)
	}
	return &next, nil
}
