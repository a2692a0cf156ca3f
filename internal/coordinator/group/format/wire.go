package format

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/bytesio"
)

// reader reads Kafka's types.
type reader struct{ bytesio.Reader }

func read(p []byte) *reader { return &reader{bytesio.NewReader(p)} }

func (r *reader) fail(format string, args ...any) { r.Fail(fmt.Errorf(format, args...)) }

func (r *reader) int8() int8   { return int8(r.Byte()) }
func (r *reader) int16() int16 { return int16(r.BE16()) }
func (r *reader) int32() int32 { return int32(r.BE32()) }
func (r *reader) int64() int64 { return int64(r.BE64()) }
func (r *reader) uvarint() int { return int(r.UvarintTo(math.MaxInt32)) }

// string reads a string with an int16 length.
func (r *reader) string() string { return string(r.Take(int(r.int16()))) }

// compact reads bytes with a compact length; nil for null.
func (r *reader) compact() []byte {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	return r.Take(n - 1)
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
	if n == -1 || r.Err() != nil {
		return nil
	}
	s := string(r.Take(int(n)))
	return &s
}

// count reads a compact array's length. It must not exceed the number of elements of at least min
// bytes that fit in the remaining bytes. A null array counts as empty.
func (r *reader) count(min int) int {
	n := max(r.uvarint()-1, 0)
	if n > r.Left()/min {
		r.fail("an array of %d, but only %d bytes are left", n, r.Left())
		return 0
	}
	return n
}

// tags reads tagged fields; fn, which may be nil, gets those of a structure.
func (r *reader) tags(fn func(tag int, field *reader)) {
	for n := r.uvarint(); n > 0 && r.Err() == nil; n-- {
		tag := r.uvarint()
		field := read(r.Take(r.uvarint()))
		if fn != nil {
			fn(tag, field)
		}
		if field.Err() != nil {
			r.fail("tag %d: %w", tag, field.Err())
		}
	}
}

// version reads a value's version, which must not exceed highest.
func (r *reader) version(highest int16) int16 {
	v := r.int16()
	if r.Err() == nil && (v < 0 || v > highest) {
		r.fail("unknown version %d, want 0 to %d", v, highest)
	}
	return v
}

func (r *reader) end(what string) error {
	if err := r.End(); err != nil {
		return fmt.Errorf("decode %s: %w", what, err)
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
