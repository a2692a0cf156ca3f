package wire

import (
	"errors"

	"github.com/chronik-io/chronik/internal/bytesio"
)

// ErrAnswer is returned for a response that is cut short or malformed.
var ErrAnswer = errors.New("answer: malformed")

// ErrOther is returned for a response to another request: with another correlation id, topic or
// partition.
var ErrOther = errors.New("answer: for another request")

// reader parses a response.
type reader struct{ bytesio.Reader }

func (r *reader) int16() int16 { return int16(r.BE16()) }
func (r *reader) int32() int32 { return int32(r.BE32()) }
func (r *reader) int64() int64 { return int64(r.BE64()) }
func (r *reader) uvarint() int { return int(r.UvarintTo(MaxFrame)) }

// compact reads a compact length: the encoded value is one more, 0 means null (-1).
func (r *reader) compact() int { return r.uvarint() - 1 }

// one reads the length of a compact array that must have one element.
func (r *reader) one() {
	if r.compact() != 1 {
		r.Fail(ErrAnswer)
	}
}

func (r *reader) tags() {
	for n := r.uvarint(); n > 0 && r.Err() == nil; n-- {
		r.uvarint()
		r.Take(r.uvarint())
	}
}

// header reads a flexible response header.
func (r *reader) header(correlation int32) error {
	got := r.int32()
	r.tags()
	if r.Err() != nil {
		return ErrAnswer
	}
	if got != correlation {
		return ErrOther
	}
	return nil
}

func (r *reader) partition(topic string, partition int32) error {
	r.one()
	name := r.Take(r.compact())
	r.one()
	index := r.int32()
	if r.Err() != nil {
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
	r := reader{bytesio.NewReader(frame)}
	if err := r.header(correlation); err != nil {
		return Produced{}, err
	}
	if err := r.partition(topic, partition); err != nil {
		return Produced{}, err
	}
	p := Produced{Code: r.int16(), Offset: r.int64()}
	r.int64() // log append time
	r.int64() // log start offset
	for n := r.compact(); n > 0 && r.Err() == nil; n-- {
		r.int32()
		r.Take(max(r.compact(), 0))
		r.tags()
	}
	r.Take(max(r.compact(), 0)) // error message
	r.tags()                    // partition
	r.tags()                    // topic
	r.int32()                   // throttle
	r.tags()
	if r.End() != nil {
		return Produced{}, ErrAnswer
	}
	return p, nil
}
