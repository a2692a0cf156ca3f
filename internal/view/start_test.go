package view

import (
	"bytes"
	"testing"
)

func TestFormatIsFixed(t *testing.T) {
	s := Start{Epoch: 0x0102030405060708, Partitions: 0x090a0b0c}
	p := s.Append([]byte{99})
	if want := []byte{99, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}; !bytes.Equal(p, want) {
		t.Errorf("% x, want % x", p, want)
	}
	if got, ok := ParseStart(p[1:]); !ok || got != s {
		t.Errorf("%+v, %v", got, ok)
	}
}

func FuzzStart(f *testing.F) {
	f.Add(Start{Epoch: 7, Partitions: 3}.Append(nil))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, p []byte) {
		if s, ok := ParseStart(p); ok != (len(p) == startBytes) || ok && !bytes.Equal(s.Append(nil), p) {
			t.Errorf("% x: %+v, %v", p, s, ok)
		}
	})
}
