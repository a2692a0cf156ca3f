package view

import "encoding/binary"

// StartTag is the number of the tagged field (KIP-482) with which a client asks for the Start of
// each broker in a DescribeCluster: chronik's own, ignored by other clients and brokers. It is
// empty, and each broker of the answer has one with its Start, if the client may describe the
// cluster.
const StartTag uint32 = 20482

// Start is what the broker that answers knows of a broker's start, and of the cluster.
type Start struct {
	// Epoch is the broker epoch, which grows with every start of the broker.
	Epoch int64
	// Partitions are all partitions of the cluster, also of topics that the client may not
	// describe.
	Partitions int32
}

// startBytes is the size of a Start: epoch i64 | partitions i32, big endian.
const startBytes = 12

// Append appends the field's bytes.
func (s Start) Append(p []byte) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(p, uint64(s.Epoch)), uint32(s.Partitions))
}

// ParseStart is the inverse of Start.Append; false if p is something else.
func ParseStart(p []byte) (s Start, ok bool) {
	if len(p) != startBytes {
		return Start{}, false
	}
	return Start{int64(binary.BigEndian.Uint64(p)), int32(binary.BigEndian.Uint32(p[8:]))}, true
}

// PhaseTag is the number of the tagged field with which a client asks in an ApiVersions what a
// broker that starts waits for: chronik's own, as StartTag is. A broker that starts answers at
// once, with its phase in that field: no other answer of Kafka's protocol has a text. One that
// serves clients ignores it.
const PhaseTag uint32 = 20483
