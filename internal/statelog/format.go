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

	// flagContinues marks a log that continues the logs before it.
	flagContinues = 1

	frameMagic = "\xfe\x6d\x66\xed"
)

// castagnoli is the table of CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Format identifies the owner of the files.
type Format struct {
	// Name is the name of the state in errors, for example "metadata".
	Name string
	// Magic begins every file, 8 bytes.
	Magic string
	// Version is the version of the records. Other versions are rejected.
	Version uint16
}

// identity distinguishes a file from those of other logs and generations.
type identity struct {
	log        [16]byte
	generation uint64
}

func (f *Format) header(id identity, kind, flags byte) []byte {
	h := make([]byte, headerSize)
	copy(h[:magicSize], f.Magic)
	h[8], h[9] = kind, flags
	binary.LittleEndian.PutUint16(h[10:], f.Version)
	copy(h[16:], id.log[:])
	binary.LittleEndian.PutUint64(h[32:], id.generation)
	binary.LittleEndian.PutUint32(h[44:], crc32.Checksum(h[:44], castagnoli))
	return h
}

// parseHeader decodes a file's header. The error names the fault, not the file.
func (f *Format) parseHeader(p []byte, kind byte) (identity, error) {
	var id identity
	if len(p) < headerSize || string(p[:magicSize]) != f.Magic {
		return id, errors.New("no file header")
	}
	if crc32.Checksum(p[:44], castagnoli) != binary.LittleEndian.Uint32(p[44:]) {
		return id, errors.New("wrong checksum of the header")
	}
	if v := binary.LittleEndian.Uint16(p[10:]); v != f.Version {
		return id, &newerFormat{*f, v}
	}
	if p[8] != kind {
		return id, fmt.Errorf("file kind %q, expected %q", p[8], kind)
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

// frameHeader is an encoded frame header.
type frameHeader [frameSize]byte

func (h *frameHeader) isFrame() bool { return string(h[:4]) == frameMagic }
func (h *frameHeader) length() int64 { return int64(binary.LittleEndian.Uint32(h[8:])) }
func (h *frameHeader) checksum() uint32 {
	return binary.LittleEndian.Uint32(h[12:])
}

func (h *frameHeader) frame(payload []byte) frame {
	return frame{kind: h[4], sequence: binary.LittleEndian.Uint64(h[16:]), payload: payload}
}

// sum returns the checksum of a frame up to its payload; the caller adds the payload.
func (id identity) sum(head []byte) uint32 {
	var own [24]byte
	copy(own[:], id.log[:])
	binary.LittleEndian.PutUint64(own[16:], id.generation)
	sum := crc32.Checksum(own[:], castagnoli)
	sum = crc32.Update(sum, castagnoli, head[:12])
	return crc32.Update(sum, castagnoli, head[16:frameSize])
}

// appendFrame appends an encoded frame to p.
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

// appendRecord appends a record to a payload.
func appendRecord(p, record []byte) []byte {
	return append(binary.AppendUvarint(p, uint64(len(record))), record...)
}

var errPayload = errors.New("malformed payload with a valid checksum")

// nextRecord splits the first record off a payload.
func nextRecord(p []byte) (record, rest []byte, err error) {
	n, size := binary.Uvarint(p)
	if size <= 0 || n > uint64(len(p)-size) {
		return nil, nil, errPayload
	}
	end := size + int(n)
	return p[size:end:end], p[end:], nil
}
