package filestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// All numbers are little-endian, lengths inside payloads are uvarints.
//
//	file header, 48 bytes            frame header, 24 bytes
//	 0  8  "chronikm"                 0  4  fe 6d 66 ed
//	 8  1  'S' snapshot, 'L' log      4  1  kind
//	 9  1  zero                       5  3  zero
//	10  2  format version: 1          8  4  length of the payload
//	12  4  zero                      12  4  CRC-32C of store id, generation,
//	16 16  store id                         bytes 0..12 and 16..24, payload
//	32  8  generation                16  8  revision after the frame
//	40  4  zero                      24     payload
//	44  4  CRC-32C of bytes 0..44
//
//	kind          in        payload
//	1 txns        log       count { nPut { key value } nDelete { key } }
//	2 closed      log       -
//	3 keys        snapshot  { key modRevision value } up to the payload's end
//	4 end         snapshot  number of keys; nothing follows
//
// Store id and generation in the checksum make a frame of another file invalid,
// and one that somebody made up inside a value: the store id is random.
const (
	formatVersion = 1

	headerSize = 48
	frameSize  = 24

	kindSnapshot = 'S'
	kindLog      = 'L'

	frameTxns   = 1
	frameClosed = 2
	frameKeys   = 3
	frameEnd    = 4
)

const (
	fileMagic  = "chronikm"
	frameMagic = "\xfe\x6d\x66\xed"
)

// ErrDamaged says that a file is not what was written and synced. Nothing was changed.
var ErrDamaged = errors.New("metadata is damaged")

// ErrNewerFormat says that a newer version of chronik wrote the directory.
var ErrNewerFormat = errors.New("metadata was written by a newer version of chronik")

func castagnoli(parts ...[]byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // made once, the package caches it
	sum := uint32(0)
	for _, p := range parts {
		sum = crc32.Update(sum, table, p)
	}
	return sum
}

// identity is what a file's header says about it.
type identity struct {
	store      [16]byte
	generation uint64
}

func (id identity) header(kind byte) []byte {
	h := make([]byte, headerSize)
	copy(h, fileMagic)
	h[8] = kind
	binary.LittleEndian.PutUint16(h[10:], formatVersion)
	copy(h[16:], id.store[:])
	binary.LittleEndian.PutUint64(h[32:], id.generation)
	binary.LittleEndian.PutUint32(h[44:], castagnoli(h[:44]))
	return h
}

// parseHeader reads a file's header. An error says what is wrong, not where.
func parseHeader(p []byte, kind byte) (identity, error) {
	var id identity
	if len(p) < headerSize || string(p[:8]) != fileMagic {
		return id, errors.New("no header")
	}
	if castagnoli(p[:44]) != binary.LittleEndian.Uint32(p[44:]) {
		return id, errors.New("checksum of the header")
	}
	if v := binary.LittleEndian.Uint16(p[10:]); v != formatVersion {
		return id, fmt.Errorf("format version %d, this version of chronik knows %d: %w", v, formatVersion, ErrNewerFormat)
	}
	if p[8] != kind {
		return id, fmt.Errorf("kind %q instead of %q", p[8], kind)
	}
	copy(id.store[:], p[16:])
	id.generation = binary.LittleEndian.Uint64(p[32:])
	return id, nil
}

// frame is one frame, its payload aliasing what it was parsed from.
type frame struct {
	kind     byte
	revision int64
	payload  []byte
}

func (f frame) size() int { return frameSize + len(f.payload) }

// appendFrame writes a frame behind p.
func (id identity) appendFrame(p []byte, f frame) []byte {
	at := len(p)
	p = append(p, frameMagic...)
	p = append(p, f.kind, 0, 0, 0)
	p = binary.LittleEndian.AppendUint32(p, uint32(len(f.payload)))
	p = append(p, 0, 0, 0, 0)
	p = binary.LittleEndian.AppendUint64(p, uint64(f.revision))
	binary.LittleEndian.PutUint32(p[at+12:], id.sum(p[at:at+frameSize], f.payload))
	return append(p, f.payload...)
}

func (id identity) sum(head, payload []byte) uint32 {
	var own [24]byte
	copy(own[:], id.store[:])
	binary.LittleEndian.PutUint64(own[16:], id.generation)
	return castagnoli(own[:], head[:12], head[16:frameSize], payload)
}

// parseFrame reads the frame at the beginning of p. ok is false where there is
// no valid one.
func (id identity) parseFrame(p []byte) (f frame, ok bool) {
	if len(p) < frameSize || string(p[:4]) != frameMagic {
		return f, false
	}
	n := uint64(binary.LittleEndian.Uint32(p[8:]))
	if n > uint64(len(p)-frameSize) {
		return f, false
	}
	f = frame{kind: p[4], revision: int64(binary.LittleEndian.Uint64(p[16:])), payload: p[frameSize : frameSize+n]}
	return f, id.sum(p, f.payload) == binary.LittleEndian.Uint32(p[12:])
}
