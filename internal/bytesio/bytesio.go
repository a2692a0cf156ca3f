// Package bytesio reads binary messages from memory, and appends the parts that have a length. The
// formats on the disk and between brokers use it. Each read checks its bounds, the first failure
// counts for the whole message, and no read allocates more than the message has bytes, whatever
// lengths it claims. The package does not know what a message means.
package bytesio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrMalformed is the error of a message that is too short or too long, or has a number out of its
// bounds.
var ErrMalformed = errors.New("malformed message")

// Reader reads a message from its beginning. After the first failure all methods return zero
// values, and Err and End return that failure. So a decoder checks for errors once, at its end. No
// method allocates more than the message's size, whatever the counts and lengths in it claim.
type Reader struct {
	rest []byte
	err  error
}

// NewReader returns a reader of p.
func NewReader(p []byte) Reader { return Reader{rest: p} }

// Fail notes a failure that the caller has found. The first failure stays.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

func (r *Reader) malformed(format string, args ...any) {
	if r.err == nil {
		r.Fail(fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...))
	}
}

// Err returns the first failure, nil if there is none.
func (r *Reader) Err() error { return r.err }

// Left returns how many bytes are left to read. It is 0 after a failure.
func (r *Reader) Left() int { return len(r.rest) }

// End returns the first failure. Bytes that are left are one.
func (r *Reader) End() error {
	if len(r.rest) > 0 {
		r.malformed("%d bytes after the end", len(r.rest))
	}
	return r.err
}

// Take reads n bytes, which alias the message. It returns nil if that failed.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.malformed("%d bytes, but only %d are left", n, len(r.rest))
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// ID reads an id of 16 bytes.
func (r *Reader) ID() (id [16]byte) {
	copy(id[:], r.Take(len(id)))
	return id
}

// Uvarint reads a number.
func (r *Reader) Uvarint() uint64 { return r.UvarintTo(math.MaxUint64) }

// UvarintTo reads a number up to most.
func (r *Reader) UvarintTo(most uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > most {
		r.malformed("no number up to %d", most)
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// Varint reads a signed number from low to high.
func (r *Reader) Varint(low, high int64) int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 || v < low || v > high {
		r.malformed("no number from %d to %d", low, high)
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// Count reads the number of elements that follow, each of which has at least size bytes.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.rest)/size) {
		r.malformed("%d elements, but only %d bytes are left", n, len(r.rest))
		return 0
	}
	return int(n)
}

// View reads a length and the bytes after it, which alias the message. They are nil if that failed.
func (r *Reader) View() []byte { return r.Take(r.Count(1)) }

// Bytes reads a length and returns a copy of the bytes after it, never nil.
func (r *Reader) Bytes() []byte { return append([]byte{}, r.View()...) }

// Text reads a length and the text after it.
func (r *Reader) Text() string { return string(r.View()) }

// LE32 reads a number of four bytes, the least significant first.
func (r *Reader) LE32() uint32 {
	if b := r.Take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// LE64 reads a number of eight bytes, the least significant first.
func (r *Reader) LE64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// BE16 reads a number of two bytes, the most significant first.
func (r *Reader) BE16() uint16 {
	if b := r.Take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// BE32 reads a number of four bytes, the most significant first.
func (r *Reader) BE32() uint32 {
	if b := r.Take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// BE64 reads a number of eight bytes, the most significant first.
func (r *Reader) BE64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Append appends bytes, or a text, after their length. View, Bytes and Text read them.
func Append[T string | []byte](p []byte, b T) []byte {
	return append(binary.AppendUvarint(p, uint64(len(b))), b...)
}
