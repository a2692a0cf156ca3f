package terminal

import (
	"bytes"
	"os"
	"testing"
)

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A pipe is gone when its reader has closed it; everything else is there.
func TestGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if ReaderClosed(w) || ReaderClosed(open(t, os.DevNull)) || ReaderClosed(&bytes.Buffer{}) || ReaderClosed((*os.File)(nil)) {
		t.Error("what is read is taken for gone")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if !ReaderClosed(w) {
		t.Error("a pipe that nobody reads is taken for read")
	}
}

// Devices, pipes and files are no terminals; the user's side of a pseudo-terminal is one.
func TestIs(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for name, stream := range map[string]any{"/dev/null": open(t, os.DevNull), "/dev/zero": open(t, "/dev/zero"), "a pipe": w,
		"a buffer": &bytes.Buffer{}, "nothing": nil, "no file": (*os.File)(nil)} {
		if IsTerminal(stream) {
			t.Errorf("%s is taken for a terminal", name)
		}
	}
	if _, tty := pty(t); !IsTerminal(tty) {
		t.Errorf("%s is not taken for a terminal", tty.Name())
	}
}
