package format

import (
	"encoding/binary"
	"fmt"
	"math"
)

// reader reads from p. The first error is kept in err; all later reads return zero values.
type reader struct {
	p   []byte
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.p = nil
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.p) {
		r.fail("%d bytes, but only %d are left", n, len(r.p))
		return nil
	}
	b := r.p[:n:n]
	r.p = r.p[n:]
	return b
}

func (r *reader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
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

func (r *reader) uuid() (id [16]byte) {
	copy(id[:], r.take(16))
	return id
}

func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.p)
	if n <= 0 || v > math.MaxInt32 {
		r.fail("a length is not an unsigned 32-bit varint")
		return 0
	}
	r.p = r.p[n:]
	return int(v)
}

// string reads a string with an int16 length.
func (r *reader) string() string { return string(r.take(int(r.int16()))) }

// compact reads bytes with a compact length; nil for null.
func (r *reader) compact() []byte {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	return r.take(n - 1)
}

func (r *reader) compactString() string {
	b := r.compact()
	if b == nil {
		r.fail("null instead of a string")
	}
	return string(b)
}

func (r *reader) nullableString() *string {
	b := r.compact()
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}

// oldNullableString reads a string with an int16 length, -1 for null.
func (r *reader) oldNullableString() *string {
	n := r.int16()
	if n == -1 || r.err != nil {
		return nil
	}
	s := string(r.take(int(n)))
	return &s
}

// count reads a compact array's length. It must not exceed the number of elements of at least min
// bytes that fit in the remaining bytes. A null array counts as empty.
func (r *reader) count(min int) int {
	n := max(r.uvarint()-1, 0)
	if n > len(r.p)/min {
		r.fail("an array of %d, but only %d bytes are left", n, len(r.p))
		return 0
	}
	return n
}

// tags reads tagged fields; fn, which may be nil, gets those of a structure.
func (r *reader) tags(fn func(tag int, field *reader)) {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		tag := r.uvarint()
		field := &reader{p: r.take(r.uvarint())}
		if fn != nil {
			fn(tag, field)
		}
		if field.err != nil {
			r.fail("tag %d: %w", tag, field.err)
		}
	}
}

// version reads a value's version, which must not exceed highest.
func (r *reader) version(highest int16) int16 {
	v := r.int16()
	if r.err == nil && (v < 0 || v > highest) {
		r.fail("unknown version %d, want 0 to %d", v, highest)
	}
	return v
}

func (r *reader) end(what string) error {
	if r.err == nil && len(r.p) > 0 {
		r.fail("%d bytes after the end", len(r.p))
	}
	if r.err != nil {
		return fmt.Errorf("decode %s: %w", what, r.err)
	}
	return nil
}

func appendString(p []byte, s string) []byte {
	p = binary.BigEndian.AppendUint16(p, uint16(len(s)))
	return append(p, s...)
}

func appendOldNullable(p []byte, s *string) []byte {
	if s == nil {
		return append(p, 0xff, 0xff)
	}
	return appendString(p, *s)
}

// appendBytes appends bytes with an int32 length.
func appendBytes(p, b []byte) []byte { return append(appendInt32(p, int32(len(b))), b...) }

func appendUvarint(p []byte, n int) []byte { return binary.AppendUvarint(p, uint64(n)) }

func appendCompact[B []byte | string](p []byte, b B) []byte {
	return append(appendUvarint(p, len(b)+1), b...)
}

func appendNullable(p []byte, s *string) []byte {
	if s == nil {
		return append(p, 0)
	}
	return appendCompact(p, *s)
}

func appendInt32(p []byte, v int32) []byte { return binary.BigEndian.AppendUint32(p, uint32(v)) }

func appendInt64(p []byte, v int64) []byte { return binary.BigEndian.AppendUint64(p, uint64(v)) }

// appendTag0 appends tagged fields that consist of field 0.
func appendTag0(p, field []byte) []byte {
	p = append(p, 1, 0)
	return append(appendUvarint(p, len(field)), field...)
}
