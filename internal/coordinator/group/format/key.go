package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Type is the type of a record: the first two bytes of its key.
type Type int16

// Record types of a group coordinator. A commit's key of version 0 is decoded as TypeOffset, too.
const (
	TypeOffset          Type = 1
	TypeClassicGroup    Type = 2
	TypeGroup           Type = 3
	TypeTopics          Type = 4
	TypeMember          Type = 5
	TypeTargetEpoch     Type = 6
	TypeTarget          Type = 7
	TypeCurrent         Type = 8
	TypeShareMember     Type = 10
	TypeShare           Type = 11
	TypeShareEpoch      Type = 12
	TypeShareTarget     Type = 13
	TypeShareCurrent    Type = 14
	TypeShareStates     Type = 15
	TypeRegex           Type = 16
	TypeStreams         Type = 17
	TypeStreamsTopics   Type = 18
	TypeStreamsMember   Type = 19
	TypeStreamsEpoch    Type = 20
	TypeStreamsTarget   Type = 21
	TypeStreamsCurrent  Type = 22
	TypeTopology        Type = 23
	legacyOffset        Type = 0
	MaxString                = math.MaxInt16 // bytes of a string in a key
	maxOffsetVersion         = 4
	maxClassicVersion        = 4
	offsetVersion            = 4 // as Kafka 4.3 writes it
	classicGroupVersion      = 3
)

// Streams reports whether the type is that of a streams group's record.
func (t Type) Streams() bool { return t >= TypeStreams && t <= TypeTopology }

// Share reports whether the type is that of a share group's record.
func (t Type) Share() bool { return t >= TypeShareMember && t <= TypeShareStates }

// ErrUnknownType reports that this version does not know the type of a key.
var ErrUnknownType = errors.New("unknown record type")

// Key is a key of any type.
type Key struct {
	Type  Type
	Group string
	// Item is the topic, the member id or the regular expression. It is empty for types with one
	// record per group.
	Item      string
	Partition int32 // of TypeOffset
}

// Encode encodes the key. Strings must not be longer than MaxString bytes.
func (k Key) Encode() []byte {
	p := make([]byte, 0, 10+len(k.Group)+len(k.Item))
	p = binary.BigEndian.AppendUint16(p, uint16(k.Type))
	p = appendString(p, k.Group)
	switch k.Type {
	case TypeOffset:
		p = appendString(p, k.Item)
		p = appendInt32(p, k.Partition)
	case TypeMember, TypeTarget, TypeCurrent, TypeRegex, TypeShareMember, TypeShareTarget, TypeShareCurrent,
		TypeStreamsMember, TypeStreamsTarget, TypeStreamsCurrent:
		p = appendString(p, k.Item)
	}
	return p
}

// DecodeKey decodes a key. If the type is unknown, it returns an error that matches ErrUnknownType
// and ignores the remaining bytes.
func DecodeKey(p []byte) (Key, error) {
	r := read(p)
	k := Key{Type: Type(r.int16())}
	if k.Type == legacyOffset && r.Err() == nil {
		k.Type = TypeOffset
	}
	switch k.Type {
	case TypeOffset:
		k.Group, k.Item, k.Partition = r.string(), r.string(), r.int32()
	case TypeMember, TypeTarget, TypeCurrent, TypeRegex, TypeShareMember, TypeShareTarget, TypeShareCurrent,
		TypeStreamsMember, TypeStreamsTarget, TypeStreamsCurrent:
		k.Group, k.Item = r.string(), r.string()
	case TypeClassicGroup, TypeGroup, TypeTopics, TypeTargetEpoch, TypeShare, TypeShareEpoch, TypeShareStates,
		TypeStreams, TypeStreamsTopics, TypeStreamsEpoch, TypeTopology:
		k.Group = r.string()
	default:
		if r.Err() == nil {
			return k, fmt.Errorf("decode key: %w %d", ErrUnknownType, k.Type)
		}
	}
	if err := r.end("key"); err != nil {
		return Key{}, err
	}
	return k, nil
}
