package view

import (
	"bytes"
	"testing"
)

func TestFormatIsFixed(t *testing.T) {
	p := AppendEpoch([]byte{9}, 0x0102030405060708)
	if want := []byte{9, 1, 2, 3, 4, 5, 6, 7, 8}; !bytes.Equal(p, want) {
		t.Errorf("% x, want % x", p, want)
	}
	if epoch, ok := ParseEpoch(p[1:]); !ok || epoch != 0x0102030405060708 {
		t.Errorf("%x, %v", epoch, ok)
	}
}

func FuzzEpoch(f *testing.F) {
	f.Add(AppendEpoch(nil, 7))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, p []byte) {
		if epoch, ok := ParseEpoch(p); ok != (len(p) == 8) || ok && !bytes.Equal(AppendEpoch(nil, epoch), p) {
			t.Errorf("% x: %d, %v", p, epoch, ok)
		}
	})
}
