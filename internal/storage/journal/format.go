package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Sizes, marks and flags of a journal file; the comment of header has its layout.
const (
	headerMagic   = 0x31484a43 // "CJH1"
	frameMagic    = 0x31464a43 // "CJF1"
	formatVersion = 3
	headerLen     = 72
	headerSize    = 512
	secondHeader  = 4096
	dataStart     = 8192
	frameHeader   = 80

	flagLast    = 1 << 0
	flagCarried = 1 << 1
)

// Type is what a frame does to its stream. The numbers are on disk.
type Type uint8

// The types of frames. Creation, truncation, deletion and a new start of a log are committed by a
// checkpoint. 4 to 15 are reserved.
const (
	// Batches holds the record batches of [PrevEnd, NextEnd).
	Batches Type = 1
	// Gap has no payload: compaction has removed all batches of [PrevEnd, NextEnd) from the log of
	// the leader. A follower cannot learn from batches that the log extends to NextEnd, and that
	// the leader had the frame's epoch at PrevEnd. Other types have epoch 0.
	Gap Type = 2
	// Skip has no payload and belongs to no stream. It is the last frame of its write, and the next
	// one is at position NextEnd of the file, a multiple of 4096: room between them was left for
	// small entries (see part). Only Walk shows it.
	Skip Type = 3
)

// LSN numbers the frames of a log directory's journal over all files, from 1. It is never reset and
// never reused.
type LSN uint64

// StreamID identifies a stream: the log of one partition of one topic incarnation.
type StreamID struct {
	Topic     [16]byte
	Partition int32
}

// ErrDamaged marks damage that is not an ordinary torn tail: synced bytes are gone. It is never
// repaired silently.
var ErrDamaged = errors.New("journal is damaged")

// ErrNewer marks a journal file that another version of chronik wrote, whose frames this one cannot
// read. It is no damage.
var ErrNewer = errors.New("journal has another format")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header begins a journal file, which is:
//
//	0     header, first copy: 72 bytes, and zeros up to 512
//	4096  header, second copy
//	8192  frames
//
//	header: magic u32 (CJH1) | crc u32 (of the next 64 bytes) | version u16 | 0 u16 | 0 u32 |
//	       file sequence u64 | salt u64 | first LSN u64 | journal id 16 | capacity u64 | 0 u64
//	frame: magic u32 (CJF1) | crc u32 (of all that follows) | payload length u32 | type u8 |
//	       flags u8 | 0 u16 | salt u64 | LSN u64 | durableThrough u64 | topic id 16 |
//	       partition i32 | epoch i32 | prevEnd i64 | nextEnd i64 | payload
//	type:  1 batches (payload: the record batches of [prevEnd, nextEnd)); epoch is 0
//	       2 gap (no payload): the leader's log has no batches in [prevEnd, nextEnd), and its
//	         leader epoch there is epoch
//	       3 skip (no payload, no log): the next frame is at position nextEnd of the file, a
//	         multiple of 4096; 4 to 15 are reserved
//	flags: 1 last of its write, 2 carried
//
// Integers are little endian; a crc is a CRC-32C. Frames are at multiples of 8, the first one of a
// write at a multiple of 4096. A file of quarantined frames has no header, and frames with salt 0,
// each directly behind the one before.
type header struct {
	seq      uint64
	salt     uint64
	first    LSN
	id       [16]byte
	capacity int64
}

func (h *header) encode() []byte {
	b := make([]byte, headerSize)
	le := binary.LittleEndian
	le.PutUint32(b[0:], headerMagic)
	le.PutUint16(b[8:], formatVersion)
	le.PutUint64(b[16:], h.seq)
	le.PutUint64(b[24:], h.salt)
	le.PutUint64(b[32:], uint64(h.first))
	copy(b[40:56], h.id[:])
	le.PutUint64(b[56:], uint64(h.capacity))
	le.PutUint32(b[4:], crc32.Checksum(b[8:headerLen], castagnoli))
	return b
}

// decodeHeader returns ok=false if b holds no header of any version, and an error for a valid
// header of another version.
func decodeHeader(b []byte) (h header, ok bool, err error) {
	le := binary.LittleEndian
	if len(b) < headerLen || le.Uint32(b) != headerMagic || le.Uint32(b[4:]) != crc32.Checksum(b[8:headerLen], castagnoli) {
		return h, false, nil
	}
	if v := le.Uint16(b[8:]); v != formatVersion {
		return h, false, fmt.Errorf("%w: version %d, this program reads version %d; start the version that wrote it",
			ErrNewer, v, formatVersion)
	}
	h.seq = le.Uint64(b[16:])
	h.salt = le.Uint64(b[24:])
	h.first = LSN(le.Uint64(b[32:]))
	copy(h.id[:], b[40:56])
	h.capacity = int64(le.Uint64(b[56:]))
	return h, true, nil
}

// Frame is a decoded frame.
type Frame struct {
	Stream         StreamID
	Type           Type
	Carried        bool
	LSN            LSN
	DurableThrough LSN
	Epoch          int32 // of a Gap
	PrevEnd        int64
	NextEnd        int64
	Payload        []byte

	last bool
}

// Skips reports whether the frame is a skip frame. It also recognizes one with a wrong checksum,
// unless its damage is in the fields that tell it from others.
func (f *Frame) Skips() bool {
	return f.Type == Skip && f.Stream == StreamID{} && f.PrevEnd == 0 && f.Epoch == 0
}

// putFrame fills b, frameHeader bytes, for the entry. The checksum of the payload continues that of
// the header.
func putFrame(b []byte, e *Entry, salt uint64, durable LSN, last bool) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], frameMagic)
	le.PutUint32(b[8:], uint32(len(e.Payload)))
	b[12] = byte(e.Type)
	var flags byte
	if last {
		flags |= flagLast
	}
	if e.Carried {
		flags |= flagCarried
	}
	b[13] = flags
	b[14], b[15] = 0, 0
	le.PutUint64(b[16:], salt)
	le.PutUint64(b[24:], uint64(e.LSN))
	le.PutUint64(b[32:], uint64(durable))
	id := e.Stream.id
	copy(b[40:56], id.Topic[:])
	le.PutUint32(b[56:], uint32(id.Partition))
	le.PutUint32(b[60:], uint32(e.Epoch))
	le.PutUint64(b[64:], uint64(e.PrevEnd))
	le.PutUint64(b[72:], uint64(e.NextEnd))
	crc := crc32.Update(crc32.Checksum(b[8:frameHeader], castagnoli), castagnoli, e.Payload)
	le.PutUint32(b[4:], crc)
}

// Encode appends the frame in the journal's format, with salt 0, for a file of quarantined frames.
func (f *Frame) Encode(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, frameHeader)...)
	e := Entry{Stream: NewStream(f.Stream), Type: f.Type, Carried: f.Carried, Payload: f.Payload, Epoch: f.Epoch,
		PrevEnd: f.PrevEnd, NextEnd: f.NextEnd, LSN: f.LSN}
	putFrame(b[at:], &e, 0, f.DurableThrough, true)
	return append(b, f.Payload...)
}

// parseFrame decodes the frame at the start of b. ok is false if b does not begin with a whole
// valid frame that has this salt. Payload aliases b.
func parseFrame(b []byte, salt uint64) (f Frame, ok bool) {
	le := binary.LittleEndian
	size, ok := frameLen(b)
	if !ok || int64(len(b)) < size || le.Uint64(b[16:]) != salt || le.Uint32(b[4:]) != crc32.Checksum(b[8:size], castagnoli) {
		return f, false
	}
	f = frameFields(b)
	f.Payload = b[frameHeader:size:size]
	return f, true
}

// frameFields decodes the header of a frame without verifying its checksum.
func frameFields(b []byte) (f Frame) {
	le := binary.LittleEndian
	f.Type = Type(b[12])
	f.last = b[13]&flagLast != 0
	f.Carried = b[13]&flagCarried != 0
	f.LSN = LSN(le.Uint64(b[24:]))
	f.DurableThrough = LSN(le.Uint64(b[32:]))
	copy(f.Stream.Topic[:], b[40:56])
	f.Stream.Partition = int32(le.Uint32(b[56:]))
	f.Epoch = int32(le.Uint32(b[60:]))
	f.PrevEnd = int64(le.Uint64(b[64:]))
	f.NextEnd = int64(le.Uint64(b[72:]))
	return f
}

// frameLen returns the length that a frame header claims, unverified.
func frameLen(b []byte) (int64, bool) {
	le := binary.LittleEndian
	if len(b) < frameHeader || le.Uint32(b) != frameMagic {
		return 0, false
	}
	return frameHeader + int64(le.Uint32(b[8:])), true
}

func align(n, to int64) int64 { return (n + to - 1) &^ (to - 1) }
