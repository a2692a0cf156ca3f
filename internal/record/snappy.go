package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/klauspost/compress/s2"
)

// Snappy in Kafka comes in two shapes. librdkafka and most others send one raw
// snappy block. Java sends the framing of the xerial library:
//
//	 0  82 'S' 'N' 'A' 'P' 'P' 'Y' 00
//	 8  version             int32
//	12  compatible version  int32
//	16  chunks, each an int32 length and as many bytes of a raw snappy block
//
// Readers of either kind are expected to take both.
const (
	xerialHeader = 16
	// xerialVersion is the one there is; Java's reader refuses lower ones.
	xerialVersion = 1
	// xerialBlock is how much goes into a chunk, as in Java's SnappyOutputStream.
	xerialBlock = 32 << 10
	// snappyRatio is how many bytes one byte of a block can stand for at most: a copy of
	// 64 bytes takes 3.
	snappyRatio = 22
)

var xerialMagic = [8]byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

var (
	errXerialVersion = errors.New("snappy: an unknown version of the framing")
	errXerial        = errors.New("snappy: a chunk's length is not that of its data")
	errSnappy        = errors.New("snappy: not a valid block")
)

// snappyInflater inflates block by block; a block is at most 22 times as large as
// its compressed form.
type snappyInflater struct {
	rest   []byte // chunks, or the raw block
	framed bool
	first  bool // a raw block that was not read yet
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

// begin readies s for walking over the blocks.
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

// inflate makes the next block readable.
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

// largest is the size of the largest block, as far as it could be true.
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

// chunk takes the next compressed block off the rest.
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

// snappyLen walks over the elements of a block and returns how much they inflate
// to, which must be what the block says in front. It refuses what only readers of
// the S2 extension understand (a copy with offset 0), because the consumers of
// the batch would not, and it costs nothing to believe a length afterwards.
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

// snappyElement reads one element: how many bytes it stands for, the offset of a
// copy (-1: it is a literal), how many bytes it takes itself (0: not complete).
func snappyElement(p []byte) (length, offset, size int64) {
	tag := p[0]
	var arg [4]byte
	copy(arg[:], p[1:])
	number := int64(binary.LittleEndian.Uint32(arg[:]))
	switch tag & 3 {
	case 0:
		length, size = int64(tag>>2)+1, 1
		if extra := length - 60; extra > 0 { // 60 to 63: the length is in 1 to 4 bytes
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
type xerialWriter struct {
	dst   io.Writer
	block []byte // not yet compressed
	out   []byte
}

func newXerialWriter() *xerialWriter {
	return &xerialWriter{
		block: make([]byte, 0, xerialBlock),
		out:   make([]byte, 0, 4+s2.MaxEncodedLen(xerialBlock)),
	}
}

func (x *xerialWriter) reset(dst io.Writer) error {
	x.dst, x.block = dst, x.block[:0]
	var header [xerialHeader]byte
	n := copy(header[:], xerialMagic[:])
	binary.BigEndian.PutUint32(header[n:], xerialVersion)
	binary.BigEndian.PutUint32(header[n+4:], xerialVersion)
	_, err := dst.Write(header[:])
	return err
}

func (x *xerialWriter) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := copy(x.block[len(x.block):cap(x.block)], p)
		x.block, p = x.block[:len(x.block)+n], p[n:]
		if len(x.block) == cap(x.block) {
			if err := x.flush(); err != nil {
				return 0, err
			}
		}
	}
	return total, nil
}

func (x *xerialWriter) flush() error {
	if len(x.block) == 0 {
		return nil
	}
	packed := s2.EncodeSnappy(x.out[4:cap(x.out)], x.block)
	chunk := x.out[:4+len(packed)]
	binary.BigEndian.PutUint32(chunk, uint32(len(packed)))
	x.block = x.block[:0]
	_, err := x.dst.Write(chunk)
	return err
}

func (x *xerialWriter) Close() error {
	err := x.flush()
	x.dst = nil
	return err
}
