package metadata

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// The keys of a cluster. <id> is FormatID's text. <name> is a topic's name with every '.' replaced
// by '_', so that one key guards all names that Kafka treats as colliding. <n> is a partition, of
// 10 digits.
//
//	/cluster                    Cluster
//	/producer-ids               ProducerIDs: the next block
//	/brokers/<broker>           Broker: its revision is the broker epoch; written by registration only
//	/liveness/<broker>          BrokerState; written by the controller only
//	/placements/<broker>/<id>   Placement: the log directory of each of the broker's replicas of
//	                            a topic; written by that broker only, so that the brokers of a
//	                            partition never conflict
//	/names/<name>               Name: the topic with that name
//	/topics/<id>                TopicRecord
//	/partitions/<id>/<n>        Partition: written by the controller, and by the leader (ISR and
//	                            ELR only)
//	/configs/topics/<id>        Configs: a topic's overrides
//	/configs/brokers/<broker>   Configs; "default" instead of a broker: for all
//	/configs/groups/<group>     Configs: a consumer group's own; its name escaped as in a URL path
//	/configs/client-metrics/<subscription>
//	                            Configs: a subscription to metrics of clients (KIP-714); its name
//	                            escaped as above
//	/acls/<id>                  acl.Binding: an access rule; the id is made of its contents
//	/deleting/<id>              Deleting: stays until no broker has to confirm
//	/deleting/<id>/<broker>     the broker has not removed its logs of the topic yet; it deletes
//	                            the key when it has
//	/users/<name>               User: the credentials of a user; its name escaped as in a URL path
//	/quotas/<entity>            Quota: the limits of a user, a client id, both, or an address; see
//	                            QuotaKey
//	/logins                     Logins: what all brokers must agree on to check logins
//	/gone/<member>              Gone: a member that was unregistered and must not come back;
//	                            16 hexadecimal digits
//	/snapshots/<number>         Snapshot: a complete snapshot of the cluster; 20 digits
//	/snapshot-mark              Mark: the last time at which all brokers were frozen for a snapshot
//	/tiers/<id>/<n>             Tier: what the object store has of a partition's log; written by its
//	                            leader only, and removed with the topic
//	/collection                 Collection: when unused objects were listed last; its revision decides
//	                            which objects a snapshot or a Tier may name
//	/object-store               ObjectStore: the mark by which brokers know the cluster's object
//	                            store; written once
const (
	ClusterKey     = "/cluster"
	ProducerIDsKey = "/producer-ids"
	LoginsKey      = "/logins"
	MarkKey        = "/snapshot-mark"
	CollectionKey  = "/collection"
	ObjectStoreKey = "/object-store"

	BrokerPrefix       = "/brokers/"
	LivenessPrefix     = "/liveness/"
	PlacementPrefix    = "/placements/"
	GonePrefix         = "/gone/"
	NamePrefix         = "/names/"
	TopicPrefix        = "/topics/"
	PartitionPrefix    = "/partitions/"
	TopicConfigPrefix  = "/configs/topics/"
	BrokerConfigPrefix = "/configs/brokers/"
	GroupConfigPrefix  = "/configs/groups/"
	SubscriptionPrefix = "/configs/client-metrics/"
	DeletingPrefix     = "/deleting/"
	ACLPrefix          = "/acls/"
	UserPrefix         = "/users/"
	QuotaPrefix        = "/quotas/"
	SnapshotPrefix     = "/snapshots/"
	TierPrefix         = "/tiers/"

	defaultBroker = "default"
)

// DefaultBroker stands for "all brokers" in dynamic broker configs.
const DefaultBroker int32 = -1

// BrokerKey returns the key of a broker's registration.
func BrokerKey(id int32) string { return Key{Kind: KindBroker, Broker: id}.String() }

// LivenessKey returns the key of a broker's liveness.
func LivenessKey(id int32) string { return Key{Kind: KindLiveness, Broker: id}.String() }

// PlacementKey returns the key of the log directories of a broker's replicas of a topic.
func PlacementKey(broker int32, topic [16]byte) string {
	return Key{Kind: KindPlacement, Broker: broker, ID: topic}.String()
}

// GoneKey returns the key of an unregistered member.
func GoneKey(member uint64) string { return Key{Kind: KindGone, Member: member}.String() }

// SnapshotKey returns the key of a snapshot. The number has leading zeros so that keys sort like
// numbers.
func SnapshotKey(number int64) string { return Key{Kind: KindSnapshot, Number: number}.String() }

// NameKey returns the key that guards a topic's name; colliding names share it.
func NameKey(topic string) string { return NamePrefix + strings.ReplaceAll(topic, ".", "_") }

// TopicKey returns the key of a topic.
func TopicKey(id [16]byte) string { return Key{Kind: KindTopic, ID: id}.String() }

// PartitionKey returns the key of a partition. The number has leading zeros so that keys sort like
// partitions.
func PartitionKey(id [16]byte, partition int32) string {
	return Key{Kind: KindPartition, ID: id, Partition: partition}.String()
}

// TierKey returns the key of what the object store has of a partition's log.
func TierKey(tp TopicPartition) string {
	return Key{Kind: KindTier, ID: tp.Topic, Partition: tp.Partition}.String()
}

// TierKeys returns the prefix of the keys of a topic's TierKey.
func TierKeys(topic [16]byte) string { return TierPrefix + FormatID(topic) + "/" }

// TopicConfigKey returns the key of a topic's config overrides.
func TopicConfigKey(id [16]byte) string { return Key{Kind: KindTopicConfig, ID: id}.String() }

// BrokerConfigKey returns the key of a broker's dynamic configs, or with DefaultBroker of those
// common to all brokers.
func BrokerConfigKey(id int32) string { return Key{Kind: KindBrokerConfig, Broker: id}.String() }

// GroupConfigKey returns the key of the configs of a consumer group. The name may have any bytes.
func GroupConfigKey(group string) string { return Key{Kind: KindGroupConfig, Name: group}.String() }

// SubscriptionKey returns the key of the configs of a subscription to metrics of clients. The name
// may have any bytes.
func SubscriptionKey(name string) string { return Key{Kind: KindSubscription, Name: name}.String() }

// UserKey returns the key of a user. The name may have any bytes.
func UserKey(name string) string { return Key{Kind: KindUser, Name: name}.String() }

// QuotaKey returns the key of an entity's quota, whose names must not be empty.
func QuotaKey(e quota.Entity) string { return Key{Kind: KindQuota, Entity: e}.String() }

// ACLKey returns the key of an access rule.
func ACLKey(a *acl.Binding) string { return Key{Kind: KindACL, ID: aclID(a)}.String() }

// DeletingKey returns the key of a deleted topic's tombstone.
func DeletingKey(id [16]byte) string { return Key{Kind: KindDeleting, ID: id}.String() }

// DeletingBrokerKey returns the key that a broker deletes when it has removed its logs of a deleted
// topic.
func DeletingBrokerKey(id [16]byte, broker int32) string {
	return Key{Kind: KindDeletingBroker, ID: id, Broker: broker}.String()
}

// KeyKind is the family that a key belongs to.
type KeyKind uint8

// The families of keys.
const (
	KindCluster KeyKind = iota + 1
	KindProducerIDs
	KindBroker
	KindName
	KindTopic
	KindPartition
	KindTopicConfig
	KindBrokerConfig
	KindDeleting
	KindGroupConfig
	KindLiveness
	KindPlacement
	KindDeletingBroker
	KindGone
	KindACL
	KindUser
	KindLogins
	KindQuota
	KindSubscription
	KindSnapshot
	KindMark
	KindCollection
	KindTier
	KindObjectStore
)

// Key is a parsed key. Fields that a family does not have are zero.
type Key struct {
	Kind      KeyKind
	ID        [16]byte // topic, or KindACL: the access rule
	Partition int32
	Broker    int32
	Member    uint64
	Number    int64  // of a snapshot
	Name      string // KindName: with '_' instead of '.'; KindGroupConfig: the group; KindUser: the user;
	// KindSubscription: the subscription
	Entity quota.Entity
}

// ParseKey parses a key. A key of an unknown family, or not in the form that the functions above
// return, is an error: a newer chronik may have written it, and ignoring it would lose data.
func ParseKey(s string) (Key, error) {
	k, ok := parseKey(s)
	if !ok || k.String() != s {
		return Key{}, fmt.Errorf("key %q is not known to this version of chronik: it may be %w", s, ErrNewerVersion)
	}
	return k, nil
}

// TopicOf returns the topic that a key is about, whatever its scope: these keys go with the topic.
// ok is false for other keys, and for those that this version cannot read.
func TopicOf(kv KV) (id [16]byte, ok bool) {
	k, err := ParseKey(kv.Key)
	switch {
	case err != nil || k.Kind == KindACL: // whose id is that of a rule
		return id, false
	case k.Kind == KindName: // it has the topic's id in its value
		n, err := DecodeName(kv)
		return n.ID, err == nil
	}
	return k.ID, k.ID != id
}

// part is a part of a key after the prefix of its family: a field of Key, as text without a '/'.
type part struct {
	text  func(*Key) string
	parse func(*Key, string) bool
}

var (
	idPart = part{
		func(k *Key) string { return FormatID(k.ID) },
		func(k *Key, s string) (ok bool) { var err error; k.ID, err = ParseID(s); return err == nil },
	}
	brokerPart = part{
		func(k *Key) string { return strconv.Itoa(int(k.Broker)) },
		func(k *Key, s string) (ok bool) { k.Broker, ok = parseInt32(s); return ok },
	}
	brokersPart = part{ // a broker, or all
		func(k *Key) string {
			if k.Broker == DefaultBroker {
				return defaultBroker
			}
			return brokerPart.text(k)
		},
		func(k *Key, s string) bool {
			if s == defaultBroker {
				k.Broker = DefaultBroker
				return true
			}
			return brokerPart.parse(k, s)
		},
	}
	partitionPart = part{
		func(k *Key) string { return fmt.Sprintf("%010d", k.Partition) },
		func(k *Key, s string) (ok bool) { k.Partition, ok = parseInt32(s); return ok },
	}
	memberPart = part{
		func(k *Key) string { return formatMember(k.Member) },
		func(k *Key, s string) (ok bool) { k.Member, ok = parseMember(s); return ok },
	}
	guardPart = part{ // of names of topics that collide
		func(k *Key) string { return k.Name },
		func(k *Key, s string) bool { k.Name = s; return s != "" && !strings.Contains(s, ".") },
	}
	namePart = part{
		func(k *Key) string { return url.PathEscape(k.Name) },
		func(k *Key, s string) bool {
			var err error
			k.Name, err = url.PathUnescape(s)
			return err == nil && s != ""
		},
	}
	numberPart = part{
		func(k *Key) string { return fmt.Sprintf("%020d", k.Number) },
		func(k *Key, s string) bool {
			var err error
			k.Number, err = strconv.ParseInt(s, 10, 64)
			return err == nil && k.Number > 0
		},
	}
	entityPart = part{
		func(k *Key) string { return formatEntity(k.Entity) },
		func(k *Key, s string) (ok bool) { k.Entity, ok = parseEntity(s); return ok },
	}
)

// Scope is what the keys of a kind are about. It decides which keys outlive a cluster, its
// metadata or its objects.
type Scope uint8

// The scopes.
const (
	// OfCluster: each copy of the metadata keeps them.
	OfCluster Scope = iota + 1
	// OfTopic: the same, unless the topic is left out.
	OfTopic
	// OfBrokers: a restored cluster has other brokers.
	OfBrokers
	// OfProcesses: another generation of the metadata has other processes, too.
	OfProcesses
	// OfObjects: they name objects in a store, which belong to this cluster. No snapshot has them.
	OfObjects
)

// Scope returns what keys of this kind are about, 0 if no keys are of this kind.
func (k KeyKind) Scope() Scope {
	if int(k) >= len(families) {
		return 0
	}
	return families[k].scope
}

// family is what the keys of one kind have in common. A key without parts is its prefix.
type family struct {
	scope  Scope
	prefix string
	parts  []part // separated by '/'
}

var families = [...]family{
	KindCluster:        {OfCluster, ClusterKey, nil},
	KindProducerIDs:    {OfCluster, ProducerIDsKey, nil},
	KindLogins:         {OfCluster, LoginsKey, nil},
	KindBroker:         {OfBrokers, BrokerPrefix, []part{brokerPart}},
	KindLiveness:       {OfProcesses, LivenessPrefix, []part{brokerPart}},
	KindPlacement:      {OfBrokers, PlacementPrefix, []part{brokerPart, idPart}},
	KindGone:           {OfBrokers, GonePrefix, []part{memberPart}},
	KindName:           {OfTopic, NamePrefix, []part{guardPart}},
	KindTopic:          {OfTopic, TopicPrefix, []part{idPart}},
	KindPartition:      {OfTopic, PartitionPrefix, []part{idPart, partitionPart}},
	KindTopicConfig:    {OfTopic, TopicConfigPrefix, []part{idPart}},
	KindBrokerConfig:   {OfCluster, BrokerConfigPrefix, []part{brokersPart}},
	KindGroupConfig:    {OfCluster, GroupConfigPrefix, []part{namePart}},
	KindSubscription:   {OfCluster, SubscriptionPrefix, []part{namePart}},
	KindDeleting:       {OfBrokers, DeletingPrefix, []part{idPart}},
	KindDeletingBroker: {OfBrokers, DeletingPrefix, []part{idPart, brokerPart}},
	KindACL:            {OfCluster, ACLPrefix, []part{idPart}},
	KindUser:           {OfCluster, UserPrefix, []part{namePart}},
	KindQuota:          {OfCluster, QuotaPrefix, []part{entityPart}},
	KindSnapshot:       {OfObjects, SnapshotPrefix, []part{numberPart}},
	KindMark:           {OfObjects, MarkKey, nil},
	KindCollection:     {OfObjects, CollectionKey, nil},
	KindTier:           {OfObjects, TierPrefix, []part{idPart, partitionPart}},
	KindObjectStore:    {OfObjects, ObjectStoreKey, nil},
}

// String returns the text of a key.
func (k Key) String() string {
	f := &families[k.Kind]
	text := f.prefix
	for i, p := range f.parts {
		if i > 0 {
			text += "/"
		}
		text += p.text(&k)
	}
	return text
}

func parseKey(s string) (Key, bool) {
	for kind := range families {
		f := &families[kind]
		if rest, ok := strings.CutPrefix(s, f.prefix); ok && f.prefix != "" {
			if k := (Key{Kind: KeyKind(kind)}); f.parse(&k, rest) {
				return k, true
			}
		}
	}
	return Key{}, false
}

// parse parses what follows the prefix.
func (f *family) parse(k *Key, s string) bool {
	for i, p := range f.parts {
		text, rest, more := strings.Cut(s, "/")
		if more != (i+1 < len(f.parts)) || !p.parse(k, text) {
			return false
		}
		s = rest
	}
	return s == ""
}

// parseInt32 parses a number that is not negative.
func parseInt32(s string) (int32, bool) {
	n, err := strconv.ParseInt(s, 10, 32)
	return int32(n), err == nil && n >= 0
}

// formatMember returns the text of a member id.
func formatMember(id uint64) string { return fmt.Sprintf("%016x", id) }

// parseMember is the inverse of formatMember.
func parseMember(s string) (uint64, bool) {
	id, err := strconv.ParseUint(s, 16, 64)
	return id, err == nil && formatMember(id) == s
}
