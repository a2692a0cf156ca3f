package protocol

import "encoding/binary"

// encoder appends the protocol's primitive types in one of the two encodings.
type encoder struct {
	dst      []byte
	flexible bool
}

func (e *encoder) int16(v int16) { e.dst = binary.BigEndian.AppendUint16(e.dst, uint16(v)) }
func (e *encoder) int32(v int32) { e.dst = binary.BigEndian.AppendUint32(e.dst, uint32(v)) }
func (e *encoder) int64(v int64) { e.dst = binary.BigEndian.AppendUint64(e.dst, uint64(v)) }

func (e *encoder) uvarint(v uint32) { e.dst = binary.AppendUvarint(e.dst, uint64(v)) }

func (e *encoder) count(n int) {
	if e.flexible {
		e.uvarint(uint32(n) + 1)
	} else {
		e.int32(int32(n))
	}
}

func (e *encoder) nullCount() {
	if e.flexible {
		e.uvarint(0)
	} else {
		e.int32(-1)
	}
}

// encodeString appends a string. The protocol's old encoding has 16 bits for its length.
func encodeString[S string | []byte](e *encoder, s S) {
	if e.flexible {
		e.uvarint(uint32(len(s)) + 1)
	} else {
		e.int16(int16(len(s)))
	}
	e.dst = append(e.dst, s...)
}

// nullable appends a string, and null for an empty one.
func (e *encoder) nullable(s string) {
	switch {
	case s != "":
		encodeString(e, s)
	case e.flexible:
		e.uvarint(0)
	default:
		e.int16(-1)
	}
}

// noTags appends an empty section of tagged fields if the encoding has one.
func (e *encoder) noTags() {
	if e.flexible {
		e.dst = append(e.dst, 0)
	}
}

// tag appends a tagged field whose value write appends. It calls write twice, the first time to
// measure the value.
func (e *encoder) tag(key uint32, write func()) {
	e.uvarint(key)
	at := len(e.dst)
	write()
	n := len(e.dst) - at
	e.dst = e.dst[:at]
	e.uvarint(uint32(n))
	write()
}

// Leader is the hint of KIP-951: the present leader of a partition.
type Leader struct{ ID, Epoch int32 }

// NodeEndpoint is the address of a broker that a Leader names.
type NodeEndpoint struct {
	ID   int32
	Host string
	Port int32
	Rack string // empty: null
}

func (e *encoder) leaderTag(key uint32, l *Leader) {
	e.uvarint(key)
	e.uvarint(9)
	e.int32(l.ID)
	e.int32(l.Epoch)
	e.noTags()
}

// endpoints ends a response body with its tagged field 0.
func (e *encoder) endpoints(nodes []NodeEndpoint) {
	if !e.flexible {
		return
	}
	if len(nodes) == 0 {
		e.noTags()
		return
	}
	e.uvarint(1)
	e.tag(0, func() {
		e.count(len(nodes))
		for i := range nodes {
			n := &nodes[i]
			e.int32(n.ID)
			encodeString(e, n.Host)
			e.int32(n.Port)
			e.nullable(n.Rack)
			e.noTags()
		}
	})
}

// topicEncoder writes the topics of a response that carries records, version 13 of which replaced
// names by ids.
type topicEncoder struct {
	encoder
	version int16
	inTopic bool // a topic was started and its tagged fields are not yet written
}

// beginTopic starts a topic and ends the one before it.
func beginTopic[S string | []byte](e *topicEncoder, name S, id [16]byte, partitions int) {
	e.endTopic()
	e.inTopic = true
	if e.version >= 13 {
		e.dst = append(e.dst, id[:]...)
	} else {
		encodeString(&e.encoder, name)
	}
	e.count(partitions)
}

func (e *topicEncoder) endTopic() {
	if e.inTopic {
		e.noTags()
		e.inTopic = false
	}
}
