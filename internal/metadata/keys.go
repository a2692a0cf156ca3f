package metadata

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// The keys of a cluster. <id> is FormatID's text. <name> is a topic's name with every '.' replaced
// by '_', so that one key guards all names that Kafka treats as colliding.
//
//	/cluster                    Cluster
//	/producer-ids               ProducerIDs: the next block
//	/brokers/<broker>           Broker
//	/names/<name>               Name: the topic with that name
//	/topics/<id>                TopicRecord
//	/partitions/<id>/<n>        Partition
//	/configs/topics/<id>        Configs: a topic's overrides
//	/configs/brokers/<broker>   Configs; "default" instead of a broker: for all
//	/configs/groups/<group>     Configs: a consumer group's own; its name escaped as in a URL path
//	/deleting/<id>              Deleting: stays until the topic's logs are removed
const (
	ClusterKey     = "/cluster"
	ProducerIDsKey = "/producer-ids"

	BrokerPrefix       = "/brokers/"
	NamePrefix         = "/names/"
	TopicPrefix        = "/topics/"
	PartitionPrefix    = "/partitions/"
	TopicConfigPrefix  = "/configs/topics/"
	BrokerConfigPrefix = "/configs/brokers/"
	GroupConfigPrefix  = "/configs/groups/"
	DeletingPrefix     = "/deleting/"

	defaultBroker = "default"
)

// DefaultBroker stands for "all brokers" in dynamic broker configs.
const DefaultBroker int32 = -1

// BrokerKey returns the key of a broker's registration.
func BrokerKey(id int32) string { return BrokerPrefix + strconv.Itoa(int(id)) }

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

// DeletingKey returns the key of a deleted topic's tombstone.
func DeletingKey(id [16]byte) string { return DeletingPrefix + FormatID(id) }

// KeyKind is the family that a key belongs to.
type KeyKind uint8

// The families of keys, in the order of the table above.
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
)

// Key is a parsed key. Fields that a family does not have are zero.
type Key struct {
	Kind      KeyKind
	ID        [16]byte // topic
	Partition int32
	Broker    int32
	Name      string // KindName: with '_' instead of '.'; KindGroupConfig: the group
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
	}
	return ""
}

func parseKey(s string) (Key, bool) {
	switch s {
	case ClusterKey:
		return Key{Kind: KindCluster}, true
	case ProducerIDsKey:
		return Key{Kind: KindProducerIDs}, true
	case BrokerConfigPrefix + defaultBroker:
		return Key{Kind: KindBrokerConfig, Broker: DefaultBroker}, true
	}
	if rest, ok := strings.CutPrefix(s, BrokerPrefix); ok {
		id, ok := parseInt32(rest)
		return Key{Kind: KindBroker, Broker: id}, ok
	}
	if rest, ok := strings.CutPrefix(s, BrokerConfigPrefix); ok {
		id, ok := parseInt32(rest)
		return Key{Kind: KindBrokerConfig, Broker: id}, ok
	}
	if rest, ok := strings.CutPrefix(s, GroupConfigPrefix); ok {
		group, err := url.PathUnescape(rest)
		return Key{Kind: KindGroupConfig, Name: group}, err == nil && group != ""
	}
	if rest, ok := strings.CutPrefix(s, NamePrefix); ok {
		return Key{Kind: KindName, Name: rest}, rest != "" && !strings.Contains(rest, ".")
	}
	if rest, ok := strings.CutPrefix(s, PartitionPrefix); ok {
		idText, number, ok := strings.Cut(rest, "/")
		if !ok {
			return Key{}, false
		}
		id, err := ParseID(idText)
		n, ok := parseInt32(number)
		return Key{Kind: KindPartition, ID: id, Partition: n}, ok && err == nil
	}
	return parseIDKey(s)
}

// parseIDKey parses keys that end with a topic id.
func parseIDKey(s string) (Key, bool) {
	for prefix, kind := range map[string]KeyKind{
		TopicPrefix: KindTopic, TopicConfigPrefix: KindTopicConfig, DeletingPrefix: KindDeleting,
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
