package view

import "encoding/binary"

// EpochTag is the number of the tagged field (KIP-482) with which a client asks for the epochs of
// brokers in a DescribeCluster: chronik's own, ignored by other clients and brokers. It is empty,
// and each broker of the answer has one with its broker epoch, as 8 bytes, big endian. The epoch
// grows with every start of the broker.
const EpochTag uint32 = 20482

// AppendEpoch appends a broker epoch as the field has it.
func AppendEpoch(p []byte, epoch int64) []byte {
	return binary.BigEndian.AppendUint64(p, uint64(epoch))
}

// ParseEpoch is the inverse of AppendEpoch; false if p is something else.
func ParseEpoch(p []byte) (epoch int64, ok bool) {
	if len(p) != 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(p)), true
}
