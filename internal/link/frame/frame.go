package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// HeaderSize is the size of a frame's header in bytes.
const HeaderSize = 12

// The versions of frames that this broker speaks. The two ends of a connection agree on the highest
// that both speak. Version 2 has PR, with the state of producers as producers.State.Append encodes
// it. Version 3 has the decision Whole.
const (
	MinVersion uint8 = 1
	MaxVersion uint8 = 3
)

// HasProducers is the lowest version with PR.
const HasProducers uint8 = 2

// HasWhole is the lowest version with Whole.
const HasWhole uint8 = 3

// MaxData is the most bytes of batches that a DA frame may carry: the largest batch that a client
// can send. Senders keep to MaxDataChunk unless one batch is larger.
const (
	MaxData      = 100 << 20
	MaxDataChunk = 256 << 10
)

// MaxPiece is the most bytes of a message that one RQ, RS or MS frame carries. Larger messages are
// sent in pieces, so that others pass between them.
const MaxPiece = 256 << 10

const (
	maxHello = 4 << 10
	maxList  = 1 << 20
)

// Errors that a reader of frames returns; they are wrapped with what was found. The connection
// can't be used after any of them.
var (
	ErrMalformed = errors.New("malformed frame")
	ErrChecksum  = errors.New("frame has a bad checksum")
)

// Kind is the magic of a frame, two letters.
type Kind uint16

// The kinds of frames. HE to CL belong to the handshake, RQ to MS to the lane of metadata, SB to PR
// to the lane of data; PG belongs to all lanes.
const (
	HE Kind = 'H'<<8 | 'E' // hello of the end that accepted, with its proof
	PF Kind = 'P'<<8 | 'F' // proof of the end that dialed
	RY Kind = 'R'<<8 | 'Y' // ready: frames of the lane follow
	NO Kind = 'N'<<8 | 'O' // refusal, with its reason
	CL Kind = 'C'<<8 | 'L' // the client whose requests follow

	RQ Kind = 'R'<<8 | 'Q' // request, or a piece of one
	RS Kind = 'R'<<8 | 'S' // response, or a piece of one
	MS Kind = 'M'<<8 | 'S' // message without an answer, or a piece of one

	SB Kind = 'S'<<8 | 'B' // Subscription entries
	VD Kind = 'V'<<8 | 'D' // Verdict entries
	DA Kind = 'D'<<8 | 'A' // Data and its batches
	HW Kind = 'H'<<8 | 'W' // High entries
	AK Kind = 'A'<<8 | 'K' // Ack entries
	OF Kind = 'O'<<8 | 'F' // Offline entries
	LS Kind = 'L'<<8 | 'S' // Start entries
	US Kind = 'U'<<8 | 'S' // End entries
	SY Kind = 'S'<<8 | 'Y' // Sync entries
	PR Kind = 'P'<<8 | 'R' // Producers and a part of their state

	PG Kind = 'P'<<8 | 'G' // ping, without a payload
)

// The flags of RQ, RS and MS.
const (
	// FlagMore: further pieces of this message follow.
	FlagMore uint8 = 1 << 0
	// FlagNext: this piece is not the first one.
	FlagNext uint8 = 1 << 1
	// FlagFailed: the body of a response is the text of an error.
	FlagFailed uint8 = 1 << 2
)

// String returns the two letters of a known kind, and the number of another.
func (k Kind) String() string {
	if k.limit() < 0 {
		return fmt.Sprintf("0x%04x", uint16(k))
	}
	return string([]byte{byte(k >> 8), byte(k)})
}

// limit returns the most bytes that a payload of this kind may have, -1 for an unknown kind.
func (k Kind) limit() int {
	switch k {
	case HE, PF, RY, NO, CL:
		return maxHello
	case RQ, RS, MS:
		return MaxPiece + PieceSize
	case SB, VD, HW, AK, OF, LS, US, SY:
		return maxList
	case DA:
		return MaxData + DataSize
	case PR:
		return MaxPiece + ProducersSize
	case PG:
		return 0
	}
	return -1
}

// EntrySize returns the size of an entry in a frame that is a list, 0 for other kinds.
func (k Kind) EntrySize() int {
	switch k {
	case SB:
		return SubscriptionSize
	case VD:
		return VerdictSize
	case HW:
		return HighSize
	case AK:
		return AckSize
	case OF:
		return OfflineSize
	case LS:
		return StartSize
	case US:
		return EndSize
	case SY:
		return SyncSize
	}
	return 0
}

// MaxEntries is how many entries one frame of this kind holds; 0 if it is not a list.
func (k Kind) MaxEntries() int {
	if n := k.EntrySize(); n > 0 {
		return k.limit() / n
	}
	return 0
}

// Header is the header of a frame.
type Header struct {
	Kind    Kind
	Version uint8
	Flags   uint8
	Length  uint32 // of the payload, in bytes
	Sum     uint32 // CRC-32C of the bytes before it and of the payload
}

// ParseHeader reads a header, whose version must be the given one. It checks the length against
// the bound of the kind. The error wraps ErrMalformed. p must have at least HeaderSize bytes.
func ParseHeader(p []byte, version uint8) (Header, error) {
	_ = p[HeaderSize-1]
	h := Header{
		Kind: Kind(binary.BigEndian.Uint16(p)), Version: p[2], Flags: p[3],
		Length: binary.BigEndian.Uint32(p[4:]), Sum: binary.BigEndian.Uint32(p[8:]),
	}
	most, size := h.Kind.limit(), h.Kind.EntrySize()
	switch {
	case most < 0:
		return h, fmt.Errorf("%w: unknown kind %s", ErrMalformed, h.Kind)
	case h.Version != version:
		return h, fmt.Errorf("%w: %s frame of version %d, agreed was %d", ErrMalformed, h.Kind, h.Version, version)
	case int64(h.Length) > int64(most):
		return h, fmt.Errorf("%w: %s frame of %d bytes, at most %d are allowed", ErrMalformed, h.Kind, h.Length, most)
	case size > 0 && (h.Length == 0 || int(h.Length)%size != 0):
		return h, fmt.Errorf("%w: %s frame of %d bytes is not a list of entries of %d bytes", ErrMalformed, h.Kind, h.Length, size)
	}
	return h, nil
}

// Check returns an error that wraps ErrChecksum unless head, the header as it was received, and
// payload have the header's checksum.
func (h Header) Check(head, payload []byte) error {
	return h.Verify(Update(h.Begin(head), payload))
}

// Begin returns the checksum of the header itself, to be continued with Update over the payload.
func (h Header) Begin(head []byte) uint32 { return Update(0, head[:HeaderSize-4]) }

// Verify compares a checksum that Begin and Update computed with the header's.
func (h Header) Verify(sum uint32) error {
	if sum != h.Sum {
		return fmt.Errorf("%w: %s frame of %d bytes has %08x, its header says %08x", ErrChecksum, h.Kind, h.Length, sum, h.Sum)
	}
	return nil
}

// PutHeader writes the header of a frame whose payload consists of first and rest. dst must have at
// least HeaderSize bytes.
func PutHeader(dst []byte, k Kind, version, flags uint8, first []byte, rest ...[]byte) {
	n := len(first)
	for _, p := range rest {
		n += len(p)
	}
	binary.BigEndian.PutUint16(dst, uint16(k))
	dst[2], dst[3] = version, flags
	binary.BigEndian.PutUint32(dst[4:], uint32(n))
	sum := Update(Update(0, dst[:HeaderSize-4]), first)
	for _, p := range rest {
		sum = Update(sum, p)
	}
	binary.BigEndian.PutUint32(dst[8:], sum)
}

// Update continues a CRC-32C over further bytes.
func Update(sum uint32, p []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), p)
}
