package format

import "encoding/binary"

// Group is a consumer group (KIP-848).
type Group struct {
	Epoch int32
	// Hash is a hash of the subscribed topics' metadata, 0: not computed.
	Hash int64
}

// Encode returns a ConsumerGroupMetadataValue of Kafka, version 0.
func (g Group) Encode() []byte {
	p := appendInt32(version0(16), g.Epoch)
	if g.Hash == 0 {
		return append(p, 0)
	}
	return appendTag0(p, appendInt64(nil, g.Hash))
}

// DecodeGroup decodes a consumer group.
func DecodeGroup(p []byte) (g Group, err error) {
	r := read(p)
	r.version(0)
	g.Epoch = r.int32()
	r.tags(func(tag int, f *reader) {
		if tag == 0 {
			g.Hash = f.int64()
		}
	})
	return g, r.end("consumer group")
}

// Member is the metadata of a member of a consumer group.
type Member struct {
	Instance, Rack       *string
	ClientID, ClientHost string
	Topics               []string
	Regex                *string
	RebalanceTimeout     int32 // ms, -1: not given
	Assignor             *string
	Classic              *Classic // nil: the member uses the consumer protocol
}

// Classic is the metadata of a member that uses the classic protocol.
type Classic struct {
	SessionTimeout int32 // ms
	Protocols      []Protocol
}

// Protocol is a protocol that such a member supports.
type Protocol struct {
	Name     string
	Metadata []byte
}

// Encode returns a ConsumerGroupMemberMetadataValue of Kafka, version 0.
func (m Member) Encode() []byte {
	p := appendNullable(version0(128), m.Instance)
	p = appendNullable(p, m.Rack)
	p = appendCompact(p, m.ClientID)
	p = appendCompact(p, m.ClientHost)
	p = appendUvarint(p, len(m.Topics)+1)
	for _, t := range m.Topics {
		p = appendCompact(p, t)
	}
	p = appendNullable(p, m.Regex)
	p = appendInt32(p, m.RebalanceTimeout)
	p = appendNullable(p, m.Assignor)
	if m.Classic == nil {
		return append(p, 0)
	}
	return appendTag0(p, m.Classic.encode())
}

func (c *Classic) encode() []byte {
	p := appendInt32([]byte{1}, c.SessionTimeout) // 1: the structure is not null
	p = appendUvarint(p, len(c.Protocols)+1)
	for _, q := range c.Protocols {
		p = appendCompact(p, q.Name)
		p = append(appendCompact(p, q.Metadata), 0)
	}
	return append(p, 0)
}

// DecodeMember decodes a member.
func DecodeMember(p []byte) (m Member, err error) {
	r := read(p)
	r.version(0)
	m.Instance, m.Rack = r.nullableString(), r.nullableString()
	m.ClientID, m.ClientHost = r.compactString(), r.compactString()
	for range r.count(1) {
		m.Topics = append(m.Topics, r.compactString())
	}
	m.Regex = r.nullableString()
	m.RebalanceTimeout = r.int32()
	m.Assignor = r.nullableString()
	r.tags(func(tag int, f *reader) {
		if tag == 0 {
			m.Classic = decodeClassicMember(f)
		}
	})
	return m, r.end("member of a consumer group")
}

func decodeClassicMember(r *reader) *Classic {
	if r.int8() < 0 {
		return nil
	}
	c := &Classic{SessionTimeout: r.int32()}
	for range r.count(3) {
		c.Protocols = append(c.Protocols, Protocol{Name: r.compactString(), Metadata: append([]byte(nil), r.compact()...)})
		r.tags(nil)
	}
	r.tags(nil)
	return c
}

// TargetEpoch is the group epoch of the target assignment.
type TargetEpoch struct {
	Epoch int32
	Time  int64 // ms since 1970 when it was computed, 0: not known
}

// Encode returns a ConsumerGroupTargetAssignmentMetadataValue of Kafka, version 0.
func (t TargetEpoch) Encode() []byte {
	p := appendInt32(version0(16), t.Epoch)
	if t.Time == 0 {
		return append(p, 0)
	}
	return appendTag0(p, appendInt64(nil, t.Time))
}

// DecodeTargetEpoch decodes a target epoch.
func DecodeTargetEpoch(p []byte) (t TargetEpoch, err error) {
	r := read(p)
	r.version(0)
	t.Epoch = r.int32()
	r.tags(func(tag int, f *reader) {
		if tag == 0 {
			t.Time = f.int64()
		}
	})
	return t, r.end("target assignment")
}

// TopicPartitions is a set of partitions of one topic.
type TopicPartitions struct {
	ID         [16]byte
	Partitions []int32
	// Epochs, of Current only, are the member epochs in which the member got each of the partitions
	// (KIP-1251). Nil, or an empty list in a record, is none: they are not known.
	Epochs []int32
}

// Target is a member's target assignment.
type Target []TopicPartitions

// Encode returns a ConsumerGroupTargetAssignmentMemberValue of Kafka, version 0.
func (topics Target) Encode() []byte {
	p := appendUvarint(version0(64), len(topics)+1)
	for _, t := range topics {
		p = append(appendPartitions(p, t), 0)
	}
	return append(p, 0)
}

// DecodeTarget decodes a member's target assignment.
func DecodeTarget(p []byte) (topics Target, err error) {
	r := read(p)
	r.version(0)
	topics = r.topics(false)
	r.tags(nil)
	return topics, r.end("target assignment of a member")
}

func appendPartitions(p []byte, t TopicPartitions) []byte {
	p = append(p, t.ID[:]...)
	return appendInts(p, t.Partitions)
}

func appendInts(p []byte, list []int32) []byte {
	p = appendUvarint(p, len(list)+1)
	for _, n := range list {
		p = appendInt32(p, n)
	}
	return p
}

// topics reads sets of partitions. If they have no epochs, the field of Epochs is an unknown one.
func (r *reader) topics(epochs bool) (list []TopicPartitions) {
	for range r.count(18) {
		t := TopicPartitions{ID: r.ID(), Partitions: r.ints()}
		r.tags(func(tag int, f *reader) {
			if tag == 0 && epochs {
				t.Epochs = f.ints()
			}
		})
		if t.Epochs != nil && len(t.Epochs) != len(t.Partitions) {
			r.fail("%d epochs for %d partitions", len(t.Epochs), len(t.Partitions))
		}
		list = append(list, t)
	}
	return list
}

func (r *reader) ints() (list []int32) {
	n := r.count(4)
	if n == 0 {
		return nil
	}
	list = make([]int32, n)
	for i := range list {
		list[i] = r.int32()
	}
	return list
}

// Current is a member's current assignment, on its way to the target assignment.
type Current struct {
	Epoch, Previous int32 // of the member: its epoch, and the one before it
	State           int8  // 0 stable, 1 has to revoke partitions, 2 waits for partitions of others
	Assigned        []TopicPartitions
	Revoking        []TopicPartitions // to be revoked before the member's epoch advances
}

// Encode returns a ConsumerGroupCurrentMemberAssignmentValue of Kafka, version 0.
func (c Current) Encode() []byte {
	p := appendInt32(version0(128), c.Epoch)
	p = appendInt32(p, c.Previous)
	p = append(p, byte(c.State))
	p = appendOwned(p, c.Assigned)
	p = appendOwned(p, c.Revoking)
	return append(p, 0)
}

func appendOwned(p []byte, topics []TopicPartitions) []byte {
	p = appendUvarint(p, len(topics)+1)
	for _, t := range topics {
		p = appendPartitions(p, t)
		if t.Epochs == nil {
			p = append(p, 0)
			continue
		}
		p = appendTag0(p, appendInts(nil, t.Epochs))
	}
	return p
}

// DecodeCurrent decodes a member's current assignment.
func DecodeCurrent(p []byte) (c Current, err error) {
	r := read(p)
	r.version(0)
	c.Epoch, c.Previous, c.State = r.int32(), r.int32(), r.int8()
	c.Assigned, c.Revoking = r.topics(true), r.topics(true)
	r.tags(nil)
	return c, r.end("current assignment of a member")
}

// Regex has the topics that a member's regular expression matches.
type Regex struct {
	Topics  []string
	Version int64 // of the metadata it was matched against
	Time    int64 // ms since 1970
}

// Encode returns a ConsumerGroupRegularExpressionValue of Kafka, version 0.
func (x Regex) Encode() []byte {
	p := appendUvarint(version0(64), len(x.Topics)+1)
	for _, t := range x.Topics {
		p = appendCompact(p, t)
	}
	p = appendInt64(p, x.Version)
	p = appendInt64(p, x.Time)
	return append(p, 0)
}

// DecodeRegex decodes a regular expression's matches.
func DecodeRegex(p []byte) (x Regex, err error) {
	r := read(p)
	r.version(0)
	for range r.count(1) {
		x.Topics = append(x.Topics, r.compactString())
	}
	x.Version, x.Time = r.int64(), r.int64()
	r.tags(nil)
	return x, r.end("regular expression")
}

// version0 returns the start of a value of version 0.
func version0(capacity int) []byte {
	return binary.BigEndian.AppendUint16(make([]byte, 0, capacity), 0)
}
