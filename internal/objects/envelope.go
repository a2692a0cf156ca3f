package objects

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// ErrDamaged marks bytes that are not a whole object: it is truncated or altered, or it is another
// kind of object.
var ErrDamaged = errors.New("object is damaged")

// ErrNewer marks an object whose version this program does not know.
var ErrNewer = errors.New("object has a newer format")

// Kind is what an object contains.
type Kind uint8

// The kinds. A number is never used again.
const (
	Log      Kind = 1
	Manifest Kind = 2
	Pack     Kind = 3
	Index    Kind = 4
)

// String returns the name of the kind.
func (k Kind) String() string {
	switch k {
	case Log:
		return "log"
	case Manifest:
		return "manifest"
	case Pack:
		return "pack"
	case Index:
		return "index"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

const magic = "chronikO"

// TrailerSize is the number of bytes after the content of an object.
const TrailerSize = 28

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Trailer is what the end of an object states about it.
type Trailer struct {
	Kind    Kind
	Version uint8
	Length  int64  // of the content, in bytes
	Sum     uint32 // CRC-32C of the content
}

// Seal appends the trailer to the content of an object.
func Seal(content []byte, kind Kind, version uint8) []byte {
	return SealAfter(0, 0, content, kind, version)
}

// SealAfter is Seal for an object whose first n bytes are elsewhere and have the checksum sum. It
// returns rest, the bytes of the content after them, with the trailer.
func SealAfter(n int64, sum uint32, rest []byte, kind Kind, version uint8) []byte {
	t := Trailer{Kind: kind, Version: version, Length: n + int64(len(rest)), Sum: crc32.Update(sum, castagnoli, rest)}
	return t.append(rest)
}

func (t *Trailer) append(b []byte) []byte {
	le := binary.LittleEndian
	at := len(b)
	b = append(b, magic...)
	b = append(b, byte(t.Kind), t.Version, 0, 0)
	b = le.AppendUint64(b, uint64(t.Length))
	b = le.AppendUint32(b, t.Sum)
	return le.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
}

// ParseTrailer returns the trailer of an object from its last bytes, of which end has at least
// TrailerSize. It verifies the trailer and not the content.
func ParseTrailer(end []byte, kind Kind, newest uint8) (t Trailer, err error) {
	if len(end) < TrailerSize {
		return t, fmt.Errorf("%w: %d bytes are less than a trailer", ErrDamaged, len(end))
	}
	b := end[len(end)-TrailerSize:]
	le := binary.LittleEndian
	t = Trailer{Kind: Kind(b[8]), Version: b[9], Length: int64(le.Uint64(b[12:])), Sum: le.Uint32(b[20:])}
	switch {
	case string(b[:8]) != magic:
		return t, fmt.Errorf("%w: it does not end with a trailer", ErrDamaged)
	case crc32.Checksum(b[:24], castagnoli) != le.Uint32(b[24:]):
		return t, fmt.Errorf("%w: its trailer does not match its checksum", ErrDamaged)
	case t.Kind != kind:
		return t, fmt.Errorf("%w: it is an object of kind %v, expected %v", ErrDamaged, t.Kind, kind)
	case t.Version == 0 || t.Length < 0 || b[10] != 0 || b[11] != 0:
		return t, fmt.Errorf("%w: its trailer has impossible values", ErrDamaged)
	case t.Version > newest:
		return t, fmt.Errorf("%w: %v version %d, this program reads up to %d; use the version that wrote it",
			ErrNewer, kind, t.Version, newest)
	}
	return t, nil
}

// Open verifies a whole object, and returns its content, which aliases b, and its version, which is
// at most newest.
func Open(b []byte, kind Kind, newest uint8) (content []byte, version uint8, err error) {
	t, err := ParseTrailer(b, kind, newest)
	if err != nil {
		return nil, 0, err
	}
	content = b[:len(b)-TrailerSize]
	if t.Length != int64(len(content)) {
		return nil, 0, fmt.Errorf("%w: it has %d bytes of content instead of %d", ErrDamaged, len(content), t.Length)
	}
	if crc32.Checksum(content, castagnoli) != t.Sum {
		return nil, 0, fmt.Errorf("%w: its content does not match its checksum", ErrDamaged)
	}
	return content, t.Version, nil
}

// Write verifies an object that Seal made and puts it. The bytes must never change; see Body. It
// verifies them because memory may have failed since they were sealed, and a damaged object would
// be found only when it is needed.
func Write(ctx context.Context, s Store, name string, kind Kind, sealed []byte) error {
	if _, _, err := Open(sealed, kind, 255); err != nil {
		return fmt.Errorf("write object %s: %w", name, err)
	}
	if err := s.Put(ctx, name, bytes.NewReader(sealed)); err != nil {
		return fmt.Errorf("write object %s: %w", name, err)
	}
	return nil
}

// firstRead is how many bytes of an object Read asks for first. Most objects that it reads are
// smaller, and then one call is enough.
const firstRead = 64 << 10

// Read reads an object of at most limit bytes as a whole and verifies it. content is its own copy.
func Read(ctx context.Context, s Store, name string, kind Kind, newest uint8, limit int64) (content []byte, version uint8, err error) {
	b := make([]byte, 0, min(firstRead, limit+1))
	for {
		n, err := s.Get(ctx, name, int64(len(b)), b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read object %s: %w", name, err)
		}
		if int64(len(b)) > limit {
			return nil, 0, fmt.Errorf("read object %s: %w: it has more than %d bytes", name, ErrDamaged, limit)
		}
		grown := make([]byte, len(b), min(8*int64(cap(b)), limit+1))
		copy(grown, b)
		b = grown
	}
	content, version, err = Open(b, kind, newest)
	if err != nil {
		return nil, 0, fmt.Errorf("read object %s: %w", name, err)
	}
	return content, version, nil
}
