package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/bytesio"
)

// Type is the type of a record: the first two bytes of its key.
type Type int16

// Record types.
const (
	TypeSnapshot Type = 0
	TypeUpdate   Type = 1
)

// MaxGroup is the largest number of bytes of a group id.
const MaxGroup = math.MaxInt16

// ErrUnknownType reports that this version does not know the type of a key.
var ErrUnknownType = errors.New("unknown record type")

// Key names a share partition.
type Key struct {
	Group     string
	Topic     [16]byte // topic id
	Partition int32
}

// String returns the key as Kafka writes it in the key of FindCoordinator, with the id in hex.
func (k Key) String() string { return fmt.Sprintf("%s:%x:%d", k.Group, k.Topic, k.Partition) }

// Encode encodes the key of a record. The group must not be longer than MaxGroup.
func (k Key) Encode(t Type) []byte {
	p := make([]byte, 0, 2+2+len(k.Group)+len(k.Topic)+4)
	p = binary.BigEndian.AppendUint16(p, uint16(t))
	p = binary.BigEndian.AppendUint16(p, uint16(len(k.Group)))
	p = append(append(p, k.Group...), k.Topic[:]...)
	return binary.BigEndian.AppendUint32(p, uint32(k.Partition))
}

// DecodeKey decodes a key. If the type is unknown, it returns an error that matches ErrUnknownType
// and ignores the remaining bytes.
func DecodeKey(p []byte) (Type, Key, error) {
	r := bytesio.NewReader(p)
	t := Type(r.BE16())
	if r.Err() == nil && t != TypeSnapshot && t != TypeUpdate {
		return t, Key{}, fmt.Errorf("decode key: %w %d", ErrUnknownType, t)
	}
	k := Key{Group: string(r.Take(int(int16(r.BE16())))), Topic: r.ID(), Partition: int32(r.BE32())}
	if err := r.End(); err != nil {
		return t, Key{}, fmt.Errorf("decode key: %w", err)
	}
	return t, k, nil
}
