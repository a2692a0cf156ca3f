package metadata

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
)

// ID is an id of 16 bytes. Its text, also as JSON, is that of FormatID.
type ID [16]byte

// String returns the text of the id.
func (id ID) String() string { return FormatID(id) }

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(FormatID(id)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(p []byte) error {
	x, err := ParseID(string(p))
	*id = x
	return err
}

// idLen is the length of an id as text: 16 bytes in base64 without padding.
const idLen = 22

// NewID returns a random (version 4) UUID. Its text does not begin with a dash, because it may be
// used on command lines; Kafka does the same. It is never one of the two ids that Kafka reserves
// (all zero, and zero with a last byte of one).
func NewID() [16]byte {
	for {
		var id [16]byte
		rand.Read(id[:]) // never fails, see crypto/rand
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if FormatID(id)[0] != '-' {
			return id
		}
	}
}

// FormatID returns the text of an id: 22 characters of URL-safe base64 without padding, as Kafka
// prints topic and cluster ids.
func FormatID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseID is the inverse of FormatID. It accepts only the canonical text, so that an id has one
// key.
func ParseID(s string) ([16]byte, error) {
	var id [16]byte
	if len(s) != idLen {
		return id, fmt.Errorf("id %q: want %d characters of base64", s, idLen)
	}
	if _, err := base64.RawURLEncoding.Strict().Decode(id[:], []byte(s)); err != nil {
		return id, fmt.Errorf("id %q: %w", s, err)
	}
	return id, nil
}
