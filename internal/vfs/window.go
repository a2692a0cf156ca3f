package vfs

import (
	"errors"
	"io"
)

// Window reads a file through a buffer that moves with its reader. It must not be used
// concurrently.
type Window struct {
	File File
	Size int64 // bytes beyond do not count
	Step int64 // the least number of bytes read at a time
	Buf  []byte

	at int64 // position of Buf
}

// Fill returns the bytes at a position: n bytes or more, fewer only at the end. They are valid
// until the next call.
func (w *Window) Fill(pos, n int64) ([]byte, error) {
	if n = min(n, w.Size-pos); n <= 0 {
		return nil, nil
	}
	if pos < w.at || pos+n > w.at+int64(len(w.Buf)) {
		want := int(min(max(n, w.Step), w.Size-pos))
		if cap(w.Buf) < want {
			w.Buf = make([]byte, want)
		}
		got, err := w.File.ReadAt(w.Buf[:want], pos)
		w.Buf, w.at = w.Buf[:got], pos
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return w.Buf[pos-w.at:], nil
}
