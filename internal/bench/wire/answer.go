package wire

import (
	"encoding/binary"
	"errors"
)

// ErrAnswer is returned for a response that is cut short or malformed.
var ErrAnswer = errors.New("answer: malformed")

// ErrOther is returned for a response to another request: with another correlation id, topic or
// partition.
var ErrOther = errors.New("answer: for another request")

// reader parses a response. The first missing field sets bad, and all further fields are zero.
type reader struct {
	p   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.p) {
		r.bad = true
		return nil
	}
	b := r.p[:n]
	r.p = r.p[n:]
	return b
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.p)
	if n <= 0 || v > MaxFrame {
		r.bad = true
		return 0
	}
	r.p = r.p[n:]
	return int(v)
}

// compact reads a compact length: the encoded value is one more, 0 means null (-1).
func (r *reader) compact() int { return r.uvarint() - 1 }

// one reads the length of a compact array that must have one element.
func (r *reader) one() {
	if r.compact() != 1 {
		r.bad = true
	}
}

func (r *reader) tags() {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		r.uvarint()
		r.take(r.uvarint())
	}
}

// header reads a flexible response header.
func (r *reader) header(correlation int32) error {
	got := r.int32()
	r.tags()
	if r.bad {
		return ErrAnswer
	}
	if got != correlation {
		return ErrOther
	}
	return nil
}

func (r *reader) partition(topic string, partition int32) error {
	r.one()
	name := r.take(r.compact())
	r.one()
	index := r.int32()
	if r.bad {
		return ErrAnswer
	}
	if string(name) != topic || index != partition {
		return ErrOther
	}
	return nil
}

// Produced is the response to a request of Requests.
type Produced struct {
	Code   int16 // Kafka's error code
	Offset int64 // of the record; valid if it is not negative
}

// ReadProduced parses a response to the Produce request (version 9 to 12) with that correlation id.
// It returns ErrAnswer or ErrOther if it is not one.
func ReadProduced(frame []byte, correlation int32, topic string, partition int32) (Produced, error) {
	r := reader{p: frame}
	if err := r.header(correlation); err != nil {
		return Produced{}, err
	}
	if err := r.partition(topic, partition); err != nil {
		return Produced{}, err
	}
	p := Produced{Code: r.int16(), Offset: r.int64()}
	r.int64() // log append time
	r.int64() // log start offset
	for n := r.compact(); n > 0 && !r.bad; n-- {
		r.int32()
		r.take(max(r.compact(), 0))
		r.tags()
	}
	r.take(max(r.compact(), 0)) // error message
	r.tags()                    // partition
	r.tags()                    // topic
	r.int32()                   // throttle
	r.tags()
	if r.bad || len(r.p) != 0 {
		return Produced{}, ErrAnswer
	}
	return p, nil
}
