package link

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/link/frame"
)

// Lane is what a connection carries.
type Lane uint8

// The lanes; the package comment describes them.
const (
	Meta Lane = 1 + iota
	Data
	Client
)

// String returns the lane's name in messages.
func (l Lane) String() string {
	switch l {
	case Meta:
		return "meta"
	case Data:
		return "data"
	case Client:
		return "client"
	}
	return fmt.Sprintf("lane %d", uint8(l))
}

// Identity is who a broker is.
type Identity struct {
	ClusterName string
	ClusterID   string   // empty before the cluster exists
	Generation  [16]byte // of the cluster's metadata; counts only with a ClusterID
	Node        int32
	Member      uint64 // of the metadata directory
	BrokerEpoch int64  // of the registration; -1 before it
	// FeatureLevel is the highest that the broker supports.
	FeatureLevel int16
	// Address is what the broker advertises to other brokers; an earlier version states none.
	Address string
}

// Hello is what an end of a connection states about itself.
type Hello struct {
	Identity
	Lane Lane
	// Process is a random number of the process. Dialer is the number of the Peer in it that dials,
	// 0 on the other lanes. Attempt counts the dials of the process, so that of two connections of
	// a Dialer the newer one is known.
	Process, Attempt       uint64
	Dialer                 uint32
	MinVersion, MaxVersion uint8 // of frames
	Secured                bool  // it has a secret, and wants proof that the other end has it

	nonce [nonceSize]byte
	// flags and extra are what a later version states in addition. This one does not know what it
	// means, and keeps it because the proof covers it.
	flags byte
	extra []byte
}

// The bytes of a hello, big endian:
//
//	version u8 | lane u8 | flags u8 | lowest and highest version of frames u8 | feature level u16
//	| node u32 | member u64 | broker epoch u64 | process u64 | attempt u64 | dialer u32
//	| generation 16 | nonce 32 | cluster name, cluster id, address: each length u8 and its bytes
//	| fields of later versions
//	flags  1 has a secret; others: of later versions
//
// It stays readable for all versions: an end states it before it knows the other one. Later
// versions add flags and fields behind the last one, which earlier ones ignore, and leave the
// version as it is. What has to be agreed on has a frame version, or a feature level. The address
// is absent if it and what follows are empty.
const (
	helloVersion = 1
	flagSecured  = 1
	nonceSize    = 32
	helloFixed   = 1 + 1 + 1 + 2 + 2 + 4 + 8 + 8 + 8 + 8 + 4 + 16 + nonceSize
	// maxName bounds the cluster's name, its id and the address, in bytes.
	maxName = 249
)

// appendTo appends the hello to dst.
func (h *Hello) appendTo(dst []byte) []byte {
	flags := h.flags &^ flagSecured
	if h.Secured {
		flags |= flagSecured
	}
	dst = append(dst, helloVersion, byte(h.Lane), flags, h.MinVersion, h.MaxVersion)
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.FeatureLevel))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.Node))
	dst = binary.BigEndian.AppendUint64(dst, h.Member)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.BrokerEpoch))
	dst = binary.BigEndian.AppendUint64(dst, h.Process)
	dst = binary.BigEndian.AppendUint64(dst, h.Attempt)
	dst = binary.BigEndian.AppendUint32(dst, h.Dialer)
	dst = append(dst, h.Generation[:]...)
	dst = append(dst, h.nonce[:]...)
	dst = append(append(dst, byte(len(h.ClusterName))), h.ClusterName...)
	dst = append(append(dst, byte(len(h.ClusterID))), h.ClusterID...)
	if h.Address != "" || len(h.extra) > 0 {
		dst = append(append(dst, byte(len(h.Address))), h.Address...)
	}
	return append(dst, h.extra...)
}

// parseHello reads a hello. The error wraps frame.ErrMalformed.
func parseHello(p []byte) (h Hello, err error) {
	switch {
	case len(p) > 0 && p[0] != helloVersion:
		return h, fmt.Errorf("%w: hello of version %d, this version of chronik supports %d; run releases that are next to each other",
			frame.ErrMalformed, p[0], helloVersion)
	case len(p) < helloFixed:
		return h, fmt.Errorf("%w: hello of %d bytes", frame.ErrMalformed, len(p))
	}
	h.Lane, h.flags, h.MinVersion, h.MaxVersion = Lane(p[1]), p[2], p[3], p[4]
	h.Secured = h.flags&flagSecured != 0
	h.FeatureLevel = int16(binary.BigEndian.Uint16(p[5:]))
	h.Node = int32(binary.BigEndian.Uint32(p[7:]))
	h.Member = binary.BigEndian.Uint64(p[11:])
	h.BrokerEpoch = int64(binary.BigEndian.Uint64(p[19:]))
	h.Process = binary.BigEndian.Uint64(p[27:])
	h.Attempt = binary.BigEndian.Uint64(p[35:])
	h.Dialer = binary.BigEndian.Uint32(p[43:])
	copy(h.Generation[:], p[47:])
	copy(h.nonce[:], p[63:])
	name, rest, ok := cutName(p[helloFixed:])
	if h.ClusterName = name; ok {
		h.ClusterID, rest, ok = cutName(rest)
	}
	if ok && len(rest) > 0 {
		h.Address, rest, ok = cutName(rest)
		ok = ok && (h.Address != "" || len(rest) > 0)
	}
	if !ok {
		return h, fmt.Errorf("%w: hello: a name is longer than %d bytes, or incomplete", frame.ErrMalformed, maxName)
	}
	h.extra = slices.Clone(rest)
	return h, nil
}

func cutName(p []byte) (name string, rest []byte, ok bool) {
	if len(p) == 0 || p[0] > maxName || len(p) < 1+int(p[0]) {
		return "", nil, false
	}
	n := 1 + int(p[0])
	return string(p[1:n]), p[n:], true
}
