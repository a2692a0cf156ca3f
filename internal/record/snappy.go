package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/klauspost/compress/s2"
)

// Kafka uses snappy in two forms. librdkafka and most other clients send one raw snappy block. Java
// sends the framing of the xerial library:
//
//	 0  82 'S' 'N' 'A' 'P' 'P' 'Y' 00
//	 8  version             int32
//	12  compatible version  int32
//	16  chunks, each an int32 length and as many bytes of a raw snappy block
//
// Readers must accept both.
const (
	xerialHeader = 16
	// xerialVersion is the only version; Java's reader rejects lower ones.
	xerialVersion = 1
	// xerialBlock is the inflated size of a chunk, as in Java's SnappyOutputStream.
	xerialBlock = 32 << 10
	// snappyRatio is the maximum expansion of a block: a copy of 64 bytes takes 3.
	snappyRatio = 22
)

var xerialMagic = [8]byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

var (
	errXerialVersion = errors.New("snappy: unknown version of the framing")
	errXerial        = errors.New("snappy: the length of a chunk does not match its data")
	errSnappy        = errors.New("snappy: not a valid block")
)

// snappyInflater inflates block by block; a block is at most 22 times as large as its compressed
// form.
type snappyInflater struct {
	rest   []byte // chunks, or the raw block
	framed bool
	first  bool // a raw block has not been read yet
	limit  int64
	block  []byte
	unread []byte // of block
	decodeHold
}

func (s *snappyInflater) open(p []byte, limit int64, r *decodeBudget) error {
	if err := s.begin(p, limit); err != nil {
		return err
	}
	return s.take(r, s.largest())
}

// begin prepares s for a walk over the blocks.
func (s *snappyInflater) begin(p []byte, limit int64) error {
	s.framed = len(p) > xerialHeader && bytes.Equal(p[:len(xerialMagic)], xerialMagic[:])
	s.rest, s.first, s.limit, s.unread = p, !s.framed, limit, nil
	if !s.framed {
		return nil
	}
	if int32(binary.BigEndian.Uint32(p[len(xerialMagic):])) < xerialVersion {
		return errXerialVersion
	}
	s.rest = p[xerialHeader:]
	return nil
}

func (s *snappyInflater) Read(p []byte) (int, error) {
	for len(s.unread) == 0 {
		if err := s.inflate(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	return n, nil
}

// inflate inflates the next block.
func (s *snappyInflater) inflate() error {
	chunk, err := s.chunk()
	if err != nil {
		return err
	}
	n, err := snappyLen(chunk)
	if err != nil {
		return err
	}
	if n > s.limit {
		return errInflated
	}
	s.limit -= n
	s.block = sized(s.block, int(n))
	s.unread, err = s2.Decode(s.block, chunk)
	return err
}

// largest returns the size of the largest block, as far as it is possible.
func (s *snappyInflater) largest() (most int64) {
	for walk := (snappyInflater{rest: s.rest, framed: s.framed, first: s.first}); ; {
		chunk, err := walk.chunk()
		if err != nil {
			return most
		}
		n, _ := binary.Uvarint(chunk)
		most = max(most, min(int64(min(n, math.MaxUint32)), s.limit, snappyRatio*int64(len(chunk))))
	}
}

// chunk removes the next compressed block from the rest.
func (s *snappyInflater) chunk() ([]byte, error) {
	if !s.framed {
		if !s.first {
			return nil, io.EOF
		}
		s.first = false
		return s.rest, nil
	}
	if len(s.rest) == 0 {
		return nil, io.EOF
	}
	if len(s.rest) < 4 {
		return nil, errXerial
	}
	n := binary.BigEndian.Uint32(s.rest)
	if n == 0 || int64(n) > int64(len(s.rest)-4) {
		return nil, errXerial
	}
	chunk := s.rest[4 : 4+n]
	s.rest = s.rest[4+n:]
	return chunk, nil
}

func (s *snappyInflater) close() {
	s.rest, s.unread = nil, nil
	s.block = spare(s.block)
	s.release()
}

// snappyLen walks over the elements of a block and returns their inflated size, which must match
// the size that the block declares. It rejects the S2 extension (a copy with offset 0), because the
// consumers of the batch would also reject it. After this walk the declared length can be trusted.
func snappyLen(p []byte) (int64, error) {
	want, n := binary.Uvarint(p)
	if n <= 0 || want > 1<<32-1 {
		return 0, errSnappy
	}
	p = p[n:]
	var have int64
	for len(p) > 0 {
		length, offset, size := snappyElement(p)
		if size == 0 || size > int64(len(p)) {
			return 0, errSnappy
		}
		if offset >= 0 && (offset == 0 || offset > have) {
			return 0, errSnappy
		}
		have += length
		p = p[size:]
	}
	if have != int64(want) {
		return 0, errSnappy
	}
	return have, nil
}

// snappyElement parses one element. It returns the number of bytes it stands for, the offset of a
// copy (-1: a literal), and its encoded size (0: incomplete).
func snappyElement(p []byte) (length, offset, size int64) {
	tag := p[0]
	var arg [4]byte
	copy(arg[:], p[1:])
	number := int64(binary.LittleEndian.Uint32(arg[:]))
	switch tag & 3 {
	case 0:
		length, size = int64(tag>>2)+1, 1
		if extra := length - 60; extra > 0 { // 60 to 63: the length follows in 1 to 4 bytes
			length, size = number&(1<<(8*extra)-1)+1, 1+extra
		}
		return length, -1, size + length
	case 1:
		return int64(tag>>2)&7 + 4, int64(tag>>5)<<8 | number&0xff, 2
	case 2:
		return int64(tag>>2) + 1, number & 0xffff, 3
	}
	return int64(tag>>2) + 1, number, 5
}

// xerialWriter compresses into the framing above.
type xerialWriter struct{ blockWriter }

func newXerialWriter() *xerialWriter {
	out := make([]byte, 4+s2.MaxEncodedLen(xerialBlock))
	return &xerialWriter{blockWriter{block: make([]byte, 0, xerialBlock), pack: func(block []byte) ([]byte, error) {
		packed := s2.EncodeSnappy(out[4:], block)
		binary.BigEndian.PutUint32(out, uint32(len(packed)))
		return out[:4+len(packed)], nil
	}}}
}

func (x *xerialWriter) reset(dst io.Writer) error {
	var header [xerialHeader]byte
	n := copy(header[:], xerialMagic[:])
	binary.BigEndian.PutUint32(header[n:], xerialVersion)
	binary.BigEndian.PutUint32(header[n+4:], xerialVersion)
	return x.begin(dst, header[:])
}

func (x *xerialWriter) Close() error { return x.finish(nil) }
