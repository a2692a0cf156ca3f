package format

// Share is a share group (KIP-932).
type Share struct {
	Epoch int32
	Hash  int64 // of the subscribed topics' metadata, 0: not computed
}

// Encode encodes the value.
func (g Share) Encode() []byte {
	return append(appendInt64(appendInt32(version0(16), g.Epoch), g.Hash), 0)
}

// DecodeShare decodes a share group.
func DecodeShare(p []byte) (Share, error) {
	r := read(p)
	r.version(0)
	g := Share{Epoch: r.int32(), Hash: r.int64()}
	r.tags(nil)
	return g, r.end("share group")
}

// ShareMember is the metadata of a member of a share group.
type ShareMember struct {
	Rack                 *string
	ClientID, ClientHost string
	Topics               []string
}

// Encode encodes the value.
func (m ShareMember) Encode() []byte {
	p := appendNullable(version0(128), m.Rack)
	p = appendCompact(p, m.ClientID)
	p = appendCompact(p, m.ClientHost)
	p = appendUvarint(p, len(m.Topics)+1)
	for _, t := range m.Topics {
		p = appendCompact(p, t)
	}
	return append(p, 0)
}

// DecodeShareMember decodes a member of a share group.
func DecodeShareMember(p []byte) (m ShareMember, err error) {
	r := read(p)
	r.version(0)
	m.Rack, m.ClientID, m.ClientHost = r.nullableString(), r.compactString(), r.compactString()
	for range r.count(1) {
		m.Topics = append(m.Topics, r.compactString())
	}
	r.tags(nil)
	return m, r.end("member of a share group")
}

// ShareCurrent is the assignment of a member of a share group.
type ShareCurrent struct {
	Epoch, Previous int32
	State           int8 // always 0, stable
	Assigned        []TopicPartitions
}

// Encode encodes the value.
func (c ShareCurrent) Encode() []byte {
	p := appendInt32(version0(64), c.Epoch)
	p = append(appendInt32(p, c.Previous), byte(c.State))
	p = appendUvarint(p, len(c.Assigned)+1)
	for _, t := range c.Assigned {
		p = append(appendPartitions(p, t), 0)
	}
	return append(p, 0)
}

// DecodeShareCurrent decodes the assignment of a member.
func DecodeShareCurrent(p []byte) (c ShareCurrent, err error) {
	r := read(p)
	r.version(0)
	c.Epoch, c.Previous, c.State = r.int32(), r.int32(), r.int8()
	c.Assigned = r.topics(false)
	r.tags(nil)
	return c, r.end("assignment of a member of a share group")
}

// ShareStates has the partitions for which a share coordinator stores a state of the group.
type ShareStates struct {
	// Initializing are those whose state may not exist yet.
	Initializing, Initialized []ShareTopic
	// Deleting are topics whose states may not exist any more. They have no partitions.
	Deleting []ShareTopic
}

// ShareTopic is a set of partitions of one topic.
type ShareTopic struct {
	ID         [16]byte
	Name       string
	Partitions []int32
	// Added, of Initializing: the partitions from First on were added to the topic while the group
	// read it. It is a tagged field, chronik's own, which Kafka ignores.
	Added bool
	First int32
}

// addedTag is the number of the tagged field with First.
const addedTag = 20480

// appendTags appends the tagged fields.
func (t *ShareTopic) appendTags(p []byte) []byte {
	if !t.Added {
		return append(p, 0)
	}
	return appendInt32(appendUvarint(appendUvarint(append(p, 1), addedTag), 4), t.First)
}

// Encode encodes the value.
func (s ShareStates) Encode() []byte {
	p := version0(128)
	for _, list := range [][]ShareTopic{s.Initializing, s.Initialized} {
		p = appendUvarint(p, len(list)+1)
		for _, t := range list {
			p = t.appendTags(appendInts(appendCompact(append(p, t.ID[:]...), t.Name), t.Partitions))
		}
	}
	p = appendUvarint(p, len(s.Deleting)+1)
	for _, t := range s.Deleting {
		p = append(appendCompact(append(p, t.ID[:]...), t.Name), 0)
	}
	return append(p, 0)
}

// DecodeShareStates decodes the states of a share group.
func DecodeShareStates(p []byte) (s ShareStates, err error) {
	r := read(p)
	r.version(0)
	for _, list := range []*[]ShareTopic{&s.Initializing, &s.Initialized} {
		for range r.count(19) {
			t := ShareTopic{ID: r.ID(), Name: r.compactString(), Partitions: r.ints()}
			r.tags(func(tag int, f *reader) {
				if tag == addedTag {
					t.Added, t.First = true, f.int32()
				}
			})
			*list = append(*list, t)
		}
	}
	for range r.count(18) {
		s.Deleting = append(s.Deleting, ShareTopic{ID: r.ID(), Name: r.compactString()})
		r.tags(nil)
	}
	r.tags(nil)
	return s, r.end("states of a share group")
}
