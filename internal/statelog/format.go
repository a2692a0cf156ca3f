package statelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	magicSize  = 8
	headerSize = 48
	frameSize  = 24

	kindSnapshot = 'S'
	kindLog      = 'L'

	frameRecords = 1
	frameClosed  = 2
	frameState   = 3
	frameEnd     = 4

	frameMagic = "\xfe\x6d\x66\xed"
)

// castagnoli is the table of CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Format names the owner of the files.
type Format struct {
	// Name is what errors call the state, for example "metadata".
	Name string
	// Magic is what every file begins with, 8 bytes.
	Magic string
	// Version is that of the records. Another version is refused.
	Version uint16
}

// identity distinguishes a file from those of other logs and generations.
type identity struct {
	log        [16]byte
	generation uint64
}

func (f *Format) header(id identity, kind byte) []byte {
	h := make([]byte, headerSize)
	copy(h[:magicSize], f.Magic)
	h[8] = kind
	binary.LittleEndian.PutUint16(h[10:], f.Version)
	copy(h[16:], id.log[:])
	binary.LittleEndian.PutUint64(h[32:], id.generation)
	binary.LittleEndian.PutUint32(h[44:], crc32.Checksum(h[:44], castagnoli))
	return h
}

// parseHeader reads a file's header. An error says what is wrong, not where.
func (f *Format) parseHeader(p []byte, kind byte) (identity, error) {
	var id identity
	if len(p) < headerSize || string(p[:magicSize]) != f.Magic {
		return id, errors.New("no header")
	}
	if crc32.Checksum(p[:44], castagnoli) != binary.LittleEndian.Uint32(p[44:]) {
		return id, errors.New("checksum of the header")
	}
	if v := binary.LittleEndian.Uint16(p[10:]); v != f.Version {
		return id, &newerFormat{*f, v}
	}
	if p[8] != kind {
		return id, fmt.Errorf("kind %q instead of %q", p[8], kind)
	}
	copy(id.log[:], p[16:])
	id.generation = binary.LittleEndian.Uint64(p[32:])
	return id, nil
}

// frame is one frame. A parsed payload is valid until the next frame is read.
type frame struct {
	kind     byte
	sequence uint64
	payload  []byte
}

func (f frame) size() int64 { return frameSize + int64(len(f.payload)) }

// frameHeader is a frame's header as it stands in a file.
type frameHeader [frameSize]byte

func (h *frameHeader) isFrame() bool { return string(h[:4]) == frameMagic }
func (h *frameHeader) length() int64 { return int64(binary.LittleEndian.Uint32(h[8:])) }
func (h *frameHeader) checksum() uint32 {
	return binary.LittleEndian.Uint32(h[12:])
}

func (h *frameHeader) frame(payload []byte) frame {
	return frame{kind: h[4], sequence: binary.LittleEndian.Uint64(h[16:]), payload: payload}
}

// sum is the checksum of a frame up to its payload, which the caller adds.
func (id identity) sum(head []byte) uint32 {
	var own [24]byte
	copy(own[:], id.log[:])
	binary.LittleEndian.PutUint64(own[16:], id.generation)
	sum := crc32.Checksum(own[:], castagnoli)
	sum = crc32.Update(sum, castagnoli, head[:12])
	return crc32.Update(sum, castagnoli, head[16:frameSize])
}

// appendFrame writes a frame behind p.
func (id identity) appendFrame(p []byte, f frame) []byte {
	at := len(p)
	p = append(p, frameMagic...)
	p = append(p, f.kind, 0, 0, 0)
	p = binary.LittleEndian.AppendUint32(p, uint32(len(f.payload)))
	p = append(p, 0, 0, 0, 0)
	p = binary.LittleEndian.AppendUint64(p, f.sequence)
	binary.LittleEndian.PutUint32(p[at+12:], crc32.Update(id.sum(p[at:]), castagnoli, f.payload))
	return append(p, f.payload...)
}

// appendRecord writes a record behind the others of a payload.
func appendRecord(p, record []byte) []byte {
	return append(binary.AppendUvarint(p, uint64(len(record))), record...)
}

var errPayload = errors.New("malformed payload behind a valid checksum")

// nextRecord splits the first record off a payload.
func nextRecord(p []byte) (record, rest []byte, err error) {
	n, size := binary.Uvarint(p)
	if size <= 0 || n > uint64(len(p)-size) {
		return nil, nil, errPayload
	}
	end := size + int(n)
	return p[size:end:end], p[end:], nil
}
