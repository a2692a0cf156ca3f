package bytesio

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// message holds one of each part.
func message() []byte {
	p := []byte{7}
	p = append(p, "0123456789abcdef"...)
	p = binary.AppendUvarint(p, math.MaxUint64)
	p = binary.AppendUvarint(p, 300)
	p = binary.AppendVarint(p, math.MinInt64)
	p = Append(Append(Append(p, "view"), []byte{}), "text")
	p = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(p, 1<<31+1), 1<<63+2)
	p = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(p, 1<<15+3), 1<<31+4), 1<<63+5)
	return append(binary.AppendUvarint(p, 2), 8, 9, 10, 11)
}

// read reads a message, and reports whether each part is what message wrote.
func read(r *Reader) bool {
	ok := r.Byte() == 7
	ok = r.ID() == [16]byte([]byte("0123456789abcdef")) && ok
	ok = r.Uvarint() == math.MaxUint64 && ok
	ok = r.UvarintTo(300) == 300 && ok
	ok = r.Varint(math.MinInt64, -1) == math.MinInt64 && ok
	ok = string(r.View()) == "view" && ok
	empty := r.Bytes()
	ok = empty != nil && len(empty) == 0 && ok
	ok = r.Text() == "text" && ok
	ok = r.LE32() == 1<<31+1 && r.LE64() == 1<<63+2 && ok
	ok = r.BE16() == 1<<15+3 && r.BE32() == 1<<31+4 && r.BE64() == 1<<63+5 && ok
	ok = r.Count(2) == 2 && r.Left() == 4 && ok
	for _, want := range []byte{8, 9, 10, 11} {
		ok = r.Byte() == want && ok
	}
	return ok
}

func TestAReaderReturnsWhatWasWritten(t *testing.T) {
	r := NewReader(message())
	if !read(&r) || r.End() != nil {
		t.Fatalf("a part differs; end: %v", r.End())
	}
}

// A message that is cut anywhere fails, and every part after the cut is zero.
func TestAMessageThatIsCutFails(t *testing.T) {
	whole := message()
	for n := range whole {
		r := NewReader(whole[:n])
		if read(&r) {
			t.Errorf("%d of %d bytes are a message", n, len(whole))
		}
		if err := r.End(); !errors.Is(err, ErrMalformed) || !errors.Is(r.Err(), ErrMalformed) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
		if r.Left() != 0 || r.Uvarint() != 0 || r.Text() != "" || r.BE64() != 0 || r.Varint(1, 2) != 0 || r.Take(1) != nil {
			t.Errorf("%d of %d bytes: a part after the failure is not zero", n, len(whole))
		}
	}
}

func TestAFailureIsNotReplaced(t *testing.T) {
	own := errors.New("own")
	for what, try := range map[string]func(r *Reader){
		"a number above its bound":       func(r *Reader) { r.UvarintTo(4) },
		"a signed number below":          func(r *Reader) { r.Varint(0, 10) },
		"a signed number above":          func(r *Reader) { r.Varint(-10, -4) },
		"more elements than bytes":       func(r *Reader) { r.Count(1) },
		"fewer, but too long elements":   func(r *Reader) { r.UvarintTo(5); r.Count(3) },
		"a length of less than no bytes": func(r *Reader) { r.Take(-1) },
		"an end too early":               func(r *Reader) { _ = r.End() },
	} {
		r := NewReader([]byte{5, 1, 2})
		if try(&r); !errors.Is(r.Err(), ErrMalformed) {
			t.Errorf("%s: %v", what, r.Err())
		}
		if r.Fail(own); errors.Is(r.Err(), own) {
			t.Errorf("%s: a later failure replaced it", what)
		}
	}
	r := NewReader([]byte{5})
	if r.Fail(own); !errors.Is(r.End(), own) || r.Byte() != 0 {
		t.Errorf("a failure of the caller: %v", r.End())
	}
}

// The bytes that a caller appends to a part do not overwrite those behind it.
func TestAViewHasNoCapacityBehindItsEnd(t *testing.T) {
	r := NewReader([]byte{1, 'a', 1, 'b'})
	_ = append(r.View(), 'x', 'y')
	if got := r.Text(); got != "b" {
		t.Errorf("the next part is %q", got)
	}
}
