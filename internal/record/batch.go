package record

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// A record batch, format v2 (KIP-98), big endian:
//
//	 0  base offset          int64   the log's; 0 from a producer
//	 8  length               int32   bytes after this field
//	12  leader epoch         int32   the log's
//	16  magic                int8    2
//	17  CRC-32C              uint32  of all bytes from 21 to the end
//	21  attributes           int16   0-2 codec, 3 timestamp type, 4 transactional,
//	                                 5 control, 6 delete horizon, 7-15 unused
//	23  last offset delta    int32   of the last record; records-1 from a producer
//	27  first timestamp      int64   ms; base of the records' timestamp deltas; with a
//	                                 delete horizon, the horizon (KIP-534)
//	35  max timestamp        int64   ms; with type LogAppendTime: of every record
//	43  producer id          int64   -1: none
//	51  producer epoch       int16
//	53  base sequence        int32   of the first record, -1: none
//	57  records              int32   how many
//	61  the records, as one compressed stream if the attributes name a codec
//
// A record; every varint is zigzag:
//
//	length           varint   bytes after this field
//	attributes       int8     unused
//	timestamp delta  varlong  to the batch's first timestamp
//	offset delta     varint   to the batch's base offset
//	key length       varint   -1: null, then the key
//	value length     varint   -1: null, then the value
//	headers          varint   how many, and for each:
//	    key length   varint   not null, then the key
//	    value length varint   -1: null, then the value
//
// Base offset, leader epoch and magic are outside the CRC, so a broker can assign offsets to a
// batch without updating its checksum.
const (
	atBaseOffset      = 0
	atLength          = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atFirstTimestamp  = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atRecords         = 57

	// HeaderSize is the number of bytes before the first record.
	HeaderSize = 61
	// PrefixSize is the number of bytes that PeekSize needs to determine a batch's size.
	PrefixSize = atCRC

	magicV2     = 2
	lengthEnd   = atLength + 4 // the length counts from here
	legacyMin   = 14           // smallest length of a v0 message
	smallest    = HeaderSize - lengthEnd
	noTimestamp = -1

	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrHorizon       = 0x40
	attrUnused        = ^int16(0x3f) // the delete horizon is set by the cleaner, never by a producer
)

// Uncovered returns the fields of a header that no checksum covers, besides the length: where they
// begin and end.
func Uncovered() [2][2]int64 {
	return [...][2]int64{{atBaseOffset, atLength}, {atLeaderEpoch, atMagic}}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is one whole record batch, header included, as Next or Build returned it; the methods rely
// on its length having been checked there. The Set methods and Stamp write to the bytes; only
// concurrent readers are safe.
type Batch []byte

// PeekSize returns the size in bytes of the batch at the start of p. It returns ErrShort if p has
// fewer than PrefixSize bytes. For a length or a magic that no batch can have it returns an *Error:
// UnsupportedFormat for the formats 0 and 1, otherwise Corrupt. The size is unverified and at most
// 2 GiB: callers must bound it before they allocate memory for it.
func PeekSize(p []byte) (int, error) {
	if len(p) < PrefixSize {
		return 0, ErrShort
	}
	length := int32(binary.BigEndian.Uint32(p[atLength:]))
	magic := int8(p[atMagic])
	switch {
	case length < legacyMin:
		return 0, refuse(Corrupt, "length %d is less than that of any batch", length)
	case magic < 0 || magic > magicV2:
		return 0, refuse(Corrupt, "unknown magic %d", magic)
	case magic < magicV2:
		return 0, refuse(UnsupportedFormat, "message format %d is no longer supported, send format %d", magic, magicV2)
	case length < smallest:
		return 0, refuse(Corrupt, "length %d is less than that of a header", length)
	}
	return lengthEnd + int(length), nil
}

// Next splits the first batch off p. Both results alias p. It returns ErrShort if p ends before the
// batch does, or an error of PeekSize. Next checks only length and magic; CheckCRC verifies the
// rest.
func Next(p []byte) (b Batch, rest []byte, err error) {
	n, err := PeekSize(p)
	if err != nil {
		return nil, nil, err
	}
	if n > len(p) {
		return nil, nil, ErrShort
	}
	return Batch(p[:n:n]), p[n:], nil
}

func (b Batch) i16(at int) int16 { return int16(binary.BigEndian.Uint16(b[at:])) }
func (b Batch) i32(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func (b Batch) i64(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

// Transaction returns the producer of the batch at the start of p; false unless it is
// transactional. Nothing is verified.
func Transaction(p []byte) (producer int64, epoch int16, ok bool) {
	if b := Batch(p); len(b) >= HeaderSize && b[atMagic] == magicV2 && b.Transactional() {
		return b.ProducerID(), b.ProducerEpoch(), true
	}
	return 0, 0, false
}

// Idempotent reports whether the batch at the start of p has a producer id. Nothing is verified.
func Idempotent(p []byte) bool {
	b := Batch(p)
	return len(b) >= HeaderSize && b[atMagic] == magicV2 && b.ProducerID() >= 0
}

// Size returns the size of the batch in bytes, header included.
func (b Batch) Size() int { return len(b) }

// BaseOffset returns the offset of the first record that the batch was written with.
func (b Batch) BaseOffset() int64 { return b.i64(atBaseOffset) }

// LastOffset returns the offset of the last record that the batch was written with; compaction may
// have removed that record.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// LastOffsetDelta returns LastOffset - BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return b.i32(atLastOffsetDelta) }

// LeaderEpoch returns the epoch of the leader that assigned the offsets.
func (b Batch) LeaderEpoch() int32 { return b.i32(atLeaderEpoch) }

// Magic returns the format version, 2.
func (b Batch) Magic() int8 { return int8(b[atMagic]) }

// CRC returns the stored CRC-32C.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[atCRC:]) }

// Attributes returns the attribute bits as listed above.
func (b Batch) Attributes() int16 { return b.i16(atAttributes) }

// FirstTimestamp returns the base of the records' timestamp deltas, in ms since 1970, -1 for none.
// In a batch from a producer it is the timestamp of the first record; after a compaction it may
// differ.
func (b Batch) FirstTimestamp() int64 { return b.i64(atFirstTimestamp) }

// MaxTimestamp returns the largest timestamp of the records in ms since 1970, -1 for none; under
// LogAppendTime it is the timestamp of every record.
func (b Batch) MaxTimestamp() int64 { return b.i64(atMaxTimestamp) }

// Newest returns the largest timestamp of a record in the batch: MaxTimestamp, or -1 if a
// compaction left no record.
func (b Batch) Newest() int64 {
	if b.Records() == 0 {
		return noTimestamp
	}
	return b.MaxTimestamp()
}

// ProducerID returns the id of the idempotent producer, -1 for none.
func (b Batch) ProducerID() int64 { return b.i64(atProducerID) }

// ProducerEpoch returns the producer's epoch; it is meaningless without a producer id.
func (b Batch) ProducerEpoch() int16 { return b.i16(atProducerEpoch) }

// BaseSequence returns the sequence number of the first record, -1 for none; it is meaningless
// without a producer id.
func (b Batch) BaseSequence() int32 { return b.i32(atBaseSequence) }

// LastSequence returns the sequence number of the last record, -1 for none. Sequence numbers wrap
// from 2^31-1 to 0.
func (b Batch) LastSequence() int32 {
	if base := b.BaseSequence(); base >= 0 {
		return AddSequence(base, b.LastOffsetDelta())
	}
	return -1
}

// AddSequence returns the sequence number n after seq; both must be >= 0. Sequence numbers wrap
// from 2^31-1 to 0.
func AddSequence(seq, n int32) int32 {
	return int32((int64(seq) + int64(n)) & math.MaxInt32)
}

// Records returns the number of records in the batch.
func (b Batch) Records() int32 { return b.i32(atRecords) }

// Codec returns the compression of the records, which may be a codec that is not Known.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & attrCodec) }

// LogAppendTime reports whether the timestamps are the broker's.
func (b Batch) LogAppendTime() bool { return b.Attributes()&attrLogAppendTime != 0 }

// Transactional reports whether the batch is part of a transaction.
func (b Batch) Transactional() bool { return b.Attributes()&attrTransactional != 0 }

// Control reports whether the batch holds control records (transaction markers).
func (b Batch) Control() bool { return b.Attributes()&attrControl != 0 }

// DeleteHorizon returns the time, in ms since 1970, from which a compaction may remove the batch's
// tombstones or its transaction marker; false if none was set. With a delete horizon, it is the
// base of the records' timestamp deltas (KIP-534).
func (b Batch) DeleteHorizon() (ms int64, ok bool) {
	return b.FirstTimestamp(), b.Attributes()&attrHorizon != 0
}

// payload returns the bytes after the header.
func (b Batch) payload() []byte { return b[HeaderSize:] }

// CheckCRC verifies the checksum; the error is an *Error of Kind Corrupt.
func (b Batch) CheckCRC() error {
	if sum := crc32.Checksum(b[atAttributes:], castagnoli); sum != b.CRC() {
		return refuse(Corrupt, "CRC-32C is %08x, the batch says %08x", sum, b.CRC())
	}
	return nil
}

// SetBaseOffset assigns the base offset. The CRC does not cover it.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[atBaseOffset:], uint64(offset))
}

// SetLeaderEpoch sets the epoch of the leader that assigns the offsets. The CRC does not cover it.
func (b Batch) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], uint32(epoch))
}

// Stamp gives all records the broker's time ms, in ms since 1970: it sets the timestamp type
// LogAppendTime, the max timestamp, and the CRC that covers both. The records' own deltas stay;
// readers ignore them.
func (b Batch) Stamp(ms int64) {
	if b.LogAppendTime() && b.MaxTimestamp() == ms {
		return
	}
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(b.Attributes()|attrLogAppendTime))
	b.setMaxTimestamp(ms)
	b.seal()
}

func (b Batch) setMaxTimestamp(ms int64) {
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(ms))
}

// seal updates the CRC.
func (b Batch) seal() {
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
}

func (b Batch) setLength() {
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-lengthEnd))
}

func (b Batch) setCodec(c Codec) {
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(b.Attributes()&^attrCodec|int16(c)))
}
