package format

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

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

// Coordinator returns the text that decides to which partition of the topic a key belongs. It is
// also the key of FindCoordinator.
func (k Key) Coordinator() string {
	b := make([]byte, 0, len(k.Group)+1+22+1+10)
	b = append(append(b, k.Group...), ':')
	b = append(base64.RawURLEncoding.AppendEncode(b, k.Topic[:]), ':')
	return string(strconv.AppendInt(b, int64(k.Partition), 10))
}

// ParseCoordinator is the inverse of Coordinator. A group id may contain colons.
func ParseCoordinator(text string) (Key, error) {
	malformed := fmt.Errorf("%q is not the key of a share partition: want group:topicId:partition, with the topic id in base64", text)
	rest, index := cutLast(text)
	group, topic := cutLast(rest)
	n, err := strconv.ParseInt(index, 10, 32)
	if err != nil || n < 0 || group == "" || len(group) > MaxGroup {
		return Key{}, malformed
	}
	k := Key{Group: group, Partition: int32(n)}
	id, err := base64.RawURLEncoding.DecodeString(topic)
	if copy(k.Topic[:], id); err != nil || len(id) != len(k.Topic) || k.Coordinator() != text {
		return Key{}, malformed // another text of the same key would have another coordinator
	}
	return k, nil
}

// cutLast cuts a text around its last colon.
func cutLast(text string) (before, after string) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return "", text
	}
	return text[:i], text[i+1:]
}

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
