package protocol

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrMalformed is returned for bytes that do not have the form of the request's version: too short,
// or with a count or length larger than the remaining bytes. The connection that sent them has lost
// its framing and must be closed.
var ErrMalformed = errors.New("malformed request")

const (
	// MaxString bounds a string in bytes. Flexible versions could encode longer ones; Kafka refuses
	// them too.
	MaxString = math.MaxInt16
	// MaxName bounds, in bytes, the names that clients make last: those of groups, members,
	// instances, transactional ids, racks and software. A request with a longer one is refused (see
	// NameError). Of a client's id, which comes with every request, the first MaxName bytes count.
	MaxName = 1024
)

// cursor reads the protocol's primitive types. The first failure empties it and sets bad; from then
// on every read returns zero.
type cursor struct {
	src []byte
	bad bool
}

func (c *cursor) fail() {
	c.src, c.bad = nil, true
}

func (c *cursor) span(n int) []byte {
	if n < 0 || n > len(c.src) {
		c.fail()
		return nil
	}
	p := c.src[:n:n]
	c.src = c.src[n:]
	return p
}

func (c *cursor) int16() int16 {
	if p := c.span(2); p != nil {
		return int16(binary.BigEndian.Uint16(p))
	}
	return 0
}

func (c *cursor) int32() int32 {
	if p := c.span(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

// uvarint reads an unsigned varint of at most 32 bits (KIP-482).
func (c *cursor) uvarint() uint32 {
	var x uint32
	for i, b := range c.src {
		if i == 4 && b > 0x0f { // a fifth byte has four bits left, and no sixth follows
			break
		}
		x |= uint32(b&0x7f) << (7 * i)
		if b < 0x80 {
			c.src = c.src[i+1:]
			return x
		}
	}
	c.fail()
	return 0
}

// str reads a string that may not be null.
func (c *cursor) str(flexible bool) []byte {
	return c.span(c.strLen(flexible))
}

// nullableStr reads a string that may be null; null is nil, an empty string is not.
func (c *cursor) nullableStr(flexible bool) []byte {
	n := c.strLen(flexible)
	if n < 0 {
		return nil
	}
	return c.span(n)
}

func (c *cursor) strLen(flexible bool) int {
	if !flexible {
		return int(c.int16())
	}
	n := int(c.uvarint()) - 1
	if n > MaxString {
		c.fail()
		return 0
	}
	return n
}

func (c *cursor) byteLen(flexible bool) int {
	if flexible {
		return int(c.uvarint()) - 1
	}
	return int(c.int32())
}

// nullableBytes reads a byte array that may be null; null is nil, an empty array is not.
func (c *cursor) nullableBytes(flexible bool) []byte {
	n := c.byteLen(flexible)
	if n < 0 {
		return nil
	}
	return c.span(n)
}

// count reads the length of an array whose elements have at least minSize bytes each. A null array
// counts as empty. A count larger than the remaining bytes allow fails here, before memory is
// allocated for it.
func (c *cursor) count(flexible bool, minSize int) int {
	var n int32
	if flexible {
		n = int32(c.uvarint()) - 1
	} else {
		n = c.int32()
	}
	if n <= 0 {
		return 0
	}
	if int64(n)*int64(minSize) > int64(len(c.src)) {
		c.fail()
		return 0
	}
	return int(n)
}

// skipTags skips a section of tagged fields (KIP-482) and returns their number and the size of
// their values in bytes.
func (c *cursor) skipTags() (fields, bytes int) {
	n := c.uvarint()
	if int64(n)*2 > int64(len(c.src)) { // each has at least its key and its size
		c.fail()
		return 0, 0
	}
	for range n {
		c.uvarint()
		bytes += len(c.span(int(c.uvarint())))
		if c.bad {
			return 0, 0
		}
	}
	return int(n), bytes
}
