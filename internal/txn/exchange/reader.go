package exchange

import (
	"encoding/binary"
	"math"
)

// reader decodes the parts of a message. After the first one that is missing or out of bounds, it
// returns zeros.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) fail() {
	r.failed, r.rest = true, nil
}

// end returns an error if a part failed, or if something is left.
func (r *reader) end() error {
	if r.failed || len(r.rest) > 0 {
		return errWire
	}
	return nil
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// uint reads a number up to limit.
func (r *reader) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > limit {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// int reads a number from low to high.
func (r *reader) int(low, high int64) int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 || v < low || v > high {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) int64() int64 { return r.int(math.MinInt64, math.MaxInt64) }
func (r *reader) int32() int32 { return int32(r.int(math.MinInt32, math.MaxInt32)) }
func (r *reader) int16() int16 { return int16(r.int(math.MinInt16, math.MaxInt16)) }

// count reads the length of a list of at most limit elements with at least size bytes each.
func (r *reader) count(limit, size int) int {
	n := r.uint(uint64(limit))
	if n > uint64(len(r.rest)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) text() string {
	n := r.count(len(r.rest), 1)
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

// id reads the id of a topic.
func (r *reader) id() (id [16]byte) {
	if len(r.rest) < len(id) {
		r.fail()
		return id
	}
	r.rest = r.rest[copy(id[:], r.rest):]
	return id
}

// topics reads the topics of a call.
func (r *reader) topics() []topic {
	n := r.count(len(r.rest), minTopic)
	list := make([]topic, 0, n)
	for range n {
		list = append(list, topic{r.text(), r.id()})
	}
	return list
}

// topic reads the index of one of the topics.
func (r *reader) topic(list []topic) topic {
	i := r.uint(uint64(len(r.rest)) + uint64(len(list)))
	if i >= uint64(len(list)) {
		r.fail()
		return topic{}
	}
	return list[i]
}
