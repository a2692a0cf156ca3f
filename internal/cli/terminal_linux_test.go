package cli

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/testing/must"
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

func TestReaderClosed(t *testing.T) {
	r, w, err := os.Pipe()
	must.OK(t, err)
	defer w.Close()
	if ReaderClosed(w) || ReaderClosed(open(t, os.DevNull)) || ReaderClosed(&bytes.Buffer{}) || ReaderClosed((*os.File)(nil)) {
		t.Error("ReaderClosed is true for an open stream")
	}
	must.OK(t, r.Close())
	if !ReaderClosed(w) {
		t.Error("ReaderClosed is false for a pipe whose reading end is closed")
	}
}

// Devices, pipes and files are not terminals; the user's side of a pseudo-terminal is.
func TestIsTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	must.OK(t, err)
	defer r.Close()
	defer w.Close()
	for name, stream := range map[string]any{"/dev/null": open(t, os.DevNull), "/dev/zero": open(t, "/dev/zero"), "a pipe": w,
		"a buffer": &bytes.Buffer{}, "nothing": nil, "no file": (*os.File)(nil)} {
		if IsTerminal(stream) {
			t.Errorf("IsTerminal is true for %s", name)
		}
	}
	if _, tty := pty(t); !IsTerminal(tty) {
		t.Errorf("IsTerminal is false for %s", tty.Name())
	}
}

// pty returns both ends of a new pseudo-terminal.
func pty(t *testing.T) (control, tty *os.File) {
	t.Helper()
	control = open(t, "/dev/ptmx")
	n, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skip(err)
	}
	return control, open(t, fmt.Sprintf("/dev/pts/%d", n))
}
