package metadata

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/security/quota"
)

// The keys of a cluster. <id> is FormatID's text. <name> is a topic's name with every '.' replaced
// by '_', so that one key guards all names that Kafka treats as colliding.
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
//	/configs/client-metrics/<n> Configs: a subscription to metrics of clients (KIP-714); its name escaped as above
//	/acls/<id>                  ACL: an access rule; the id is made of its contents
//	/deleting/<id>              Deleting: stays until no broker has to confirm
//	/deleting/<id>/<broker>     the broker has not removed its logs of the topic yet; it deletes
//	                            the key when it has
//	/users/<name>               User: the credentials of a user; its name escaped as in a URL path
//	/quotas/<entity>            Quota: the limits of a user, a client id, both, or an address; see
//	                            QuotaKey
//	/logins                     Logins: what all brokers must agree on to check logins
//	/gone/<member>              Gone: a member that was unregistered and must not come back;
//	                            16 hexadecimal digits
const (
	ClusterKey     = "/cluster"
	ProducerIDsKey = "/producer-ids"
	LoginsKey      = "/logins"

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

	defaultBroker = "default"
)

// DefaultBroker stands for "all brokers" in dynamic broker configs.
const DefaultBroker int32 = -1

// BrokerKey returns the key of a broker's registration.
func BrokerKey(id int32) string { return BrokerPrefix + strconv.Itoa(int(id)) }

// LivenessKey returns the key of a broker's liveness.
func LivenessKey(id int32) string { return LivenessPrefix + strconv.Itoa(int(id)) }

// PlacementKey returns the key of the log directories of a broker's replicas of a topic.
func PlacementKey(broker int32, topic [16]byte) string {
	return PlacementPrefix + strconv.Itoa(int(broker)) + "/" + FormatID(topic)
}

// GoneKey returns the key of an unregistered member.
func GoneKey(member uint64) string { return GonePrefix + formatMember(member) }

// NameKey returns the key that guards a topic's name; colliding names share it.
func NameKey(topic string) string { return NamePrefix + strings.ReplaceAll(topic, ".", "_") }

// TopicKey returns the key of a topic.
func TopicKey(id [16]byte) string { return TopicPrefix + FormatID(id) }

// PartitionKey returns the key of a partition. The number has leading zeros so that keys sort like
// partitions.
func PartitionKey(id [16]byte, partition int32) string {
	return fmt.Sprintf("%s%s/%010d", PartitionPrefix, FormatID(id), partition)
}

// TopicConfigKey returns the key of a topic's config overrides.
func TopicConfigKey(id [16]byte) string { return TopicConfigPrefix + FormatID(id) }

// BrokerConfigKey returns the key of a broker's dynamic configs, or with DefaultBroker of those
// common to all brokers.
func BrokerConfigKey(id int32) string {
	if id == DefaultBroker {
		return BrokerConfigPrefix + defaultBroker
	}
	return BrokerConfigPrefix + strconv.Itoa(int(id))
}

// GroupConfigKey returns the key of the configs of a consumer group. The name may have any bytes.
func GroupConfigKey(group string) string { return GroupConfigPrefix + url.PathEscape(group) }

// SubscriptionKey returns the key of the configs of a subscription to metrics of clients. The name
// may have any bytes.
func SubscriptionKey(name string) string { return SubscriptionPrefix + url.PathEscape(name) }

// UserKey returns the key of a user. The name may have any bytes.
func UserKey(name string) string { return UserPrefix + url.PathEscape(name) }

// ACLKey returns the key of an access rule with this id.
func ACLKey(id [16]byte) string { return ACLPrefix + FormatID(id) }

// DeletingKey returns the key of a deleted topic's tombstone.
func DeletingKey(id [16]byte) string { return DeletingPrefix + FormatID(id) }

// DeletingBrokerKey returns the key that a broker deletes when it has removed its logs of a deleted
// topic.
func DeletingBrokerKey(id [16]byte, broker int32) string {
	return DeletingKey(id) + "/" + strconv.Itoa(int(broker))
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
)

// Key is a parsed key. Fields that a family does not have are zero.
type Key struct {
	Kind      KeyKind
	ID        [16]byte // topic, or KindACL: the access rule
	Partition int32
	Broker    int32
	Member    uint64
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

// String returns the text of a key.
func (k Key) String() string {
	switch k.Kind {
	case KindCluster:
		return ClusterKey
	case KindProducerIDs:
		return ProducerIDsKey
	case KindBroker:
		return BrokerKey(k.Broker)
	case KindName:
		return NamePrefix + k.Name
	case KindTopic:
		return TopicKey(k.ID)
	case KindPartition:
		return PartitionKey(k.ID, k.Partition)
	case KindTopicConfig:
		return TopicConfigKey(k.ID)
	case KindBrokerConfig:
		return BrokerConfigKey(k.Broker)
	case KindDeleting:
		return DeletingKey(k.ID)
	case KindGroupConfig:
		return GroupConfigKey(k.Name)
	case KindLiveness:
		return LivenessKey(k.Broker)
	case KindPlacement:
		return PlacementKey(k.Broker, k.ID)
	case KindDeletingBroker:
		return DeletingBrokerKey(k.ID, k.Broker)
	case KindGone:
		return GoneKey(k.Member)
	case KindACL:
		return ACLKey(k.ID)
	case KindSubscription:
		return SubscriptionKey(k.Name)
	case KindUser:
		return UserKey(k.Name)
	case KindLogins:
		return LoginsKey
	case KindQuota:
		return QuotaKey(k.Entity)
	}
	return ""
}

func parseKey(s string) (Key, bool) {
	switch s {
	case ClusterKey:
		return Key{Kind: KindCluster}, true
	case ProducerIDsKey:
		return Key{Kind: KindProducerIDs}, true
	case LoginsKey:
		return Key{Kind: KindLogins}, true
	case BrokerConfigPrefix + defaultBroker:
		return Key{Kind: KindBrokerConfig, Broker: DefaultBroker}, true
	}
	if rest, ok := strings.CutPrefix(s, BrokerPrefix); ok {
		id, ok := parseInt32(rest)
		return Key{Kind: KindBroker, Broker: id}, ok
	}
	if rest, ok := strings.CutPrefix(s, LivenessPrefix); ok {
		id, ok := parseInt32(rest)
		return Key{Kind: KindLiveness, Broker: id}, ok
	}
	if rest, ok := strings.CutPrefix(s, GonePrefix); ok {
		member, ok := parseMember(rest)
		return Key{Kind: KindGone, Member: member}, ok
	}
	if rest, ok := strings.CutPrefix(s, BrokerConfigPrefix); ok {
		id, ok := parseInt32(rest)
		return Key{Kind: KindBrokerConfig, Broker: id}, ok
	}
	if rest, ok := strings.CutPrefix(s, GroupConfigPrefix); ok {
		group, err := url.PathUnescape(rest)
		return Key{Kind: KindGroupConfig, Name: group}, err == nil && group != ""
	}
	if rest, ok := strings.CutPrefix(s, SubscriptionPrefix); ok {
		name, err := url.PathUnescape(rest)
		return Key{Kind: KindSubscription, Name: name}, err == nil && name != ""
	}
	if rest, ok := strings.CutPrefix(s, UserPrefix); ok {
		name, err := url.PathUnescape(rest)
		return Key{Kind: KindUser, Name: name}, err == nil && name != ""
	}
	if rest, ok := strings.CutPrefix(s, QuotaPrefix); ok {
		e, ok := parseEntity(rest)
		return Key{Kind: KindQuota, Entity: e}, ok
	}
	if rest, ok := strings.CutPrefix(s, NamePrefix); ok {
		return Key{Kind: KindName, Name: rest}, rest != "" && !strings.Contains(rest, ".")
	}
	if rest, ok := strings.CutPrefix(s, PartitionPrefix); ok {
		id, n, ok := parseIDAndNumber(rest)
		return Key{Kind: KindPartition, ID: id, Partition: n}, ok
	}
	if rest, ok := strings.CutPrefix(s, PlacementPrefix); ok {
		number, idText, ok := strings.Cut(rest, "/")
		n, isNumber := parseInt32(number)
		id, err := ParseID(idText)
		return Key{Kind: KindPlacement, ID: id, Broker: n}, ok && isNumber && err == nil
	}
	if rest, ok := strings.CutPrefix(s, DeletingPrefix); ok && strings.Contains(rest, "/") {
		id, n, ok := parseIDAndNumber(rest)
		return Key{Kind: KindDeletingBroker, ID: id, Broker: n}, ok
	}
	return parseIDKey(s)
}

// parseIDAndNumber parses what follows the family in a key of the form <id>/<n>.
func parseIDAndNumber(s string) (id [16]byte, n int32, ok bool) {
	idText, number, ok := strings.Cut(s, "/")
	if !ok {
		return id, 0, false
	}
	id, err := ParseID(idText)
	n, ok = parseInt32(number)
	return id, n, ok && err == nil
}

// parseIDKey parses keys that end with an id.
func parseIDKey(s string) (Key, bool) {
	for prefix, kind := range map[string]KeyKind{
		TopicPrefix: KindTopic, TopicConfigPrefix: KindTopicConfig, DeletingPrefix: KindDeleting, ACLPrefix: KindACL,
	} {
		if rest, ok := strings.CutPrefix(s, prefix); ok {
			id, err := ParseID(rest)
			return Key{Kind: kind, ID: id}, err == nil
		}
	}
	return Key{}, false
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
