package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
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
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if ReaderClosed(w) || ReaderClosed(open(t, os.DevNull)) || ReaderClosed(&bytes.Buffer{}) || ReaderClosed((*os.File)(nil)) {
		t.Error("ReaderClosed is true for an open stream")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if !ReaderClosed(w) {
		t.Error("ReaderClosed is false for a pipe whose reading end is closed")
	}
}

// Devices, pipes and files are not terminals; the user's side of a pseudo-terminal is.
func TestIsTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
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

// In character mode a read returns one key without echo, or nothing if no key is pressed.
// restore brings back the terminal's settings.
func TestCharacters(t *testing.T) {
	control, tty := pty(t)
	before, err := unix.IoctlGetTermios(int(tty.Fd()), readTermios)
	if err != nil {
		t.Fatal(err)
	}
	restore, err := CharacterMode(tty)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 8)
	if n, err := tty.Read(p); err != nil || string(p[:n]) != "q" {
		t.Errorf("read %q, %v", p[:n], err)
	}
	if n, err := tty.Read(p); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %q, %v although no key was pressed", p[:n], err)
	}
	restore()
	after, err := unix.IoctlGetTermios(int(tty.Fd()), readTermios)
	if err != nil || *after != *before {
		t.Errorf("the terminal has settings %+v, %v; want %+v", after, err, before)
	}
	if _, err := CharacterMode(open(t, os.DevNull)); err == nil {
		t.Error("CharacterMode succeeds on a device that is not a terminal")
	}
}

func TestSize(t *testing.T) {
	_, tty := pty(t)
	if c, r := TerminalSize(tty); c != 80 || r != 24 {
		t.Errorf("%d columns, %d rows without a size", c, r)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 132, Row: 50}); err != nil {
		t.Fatal(err)
	}
	if c, r := TerminalSize(tty); c != 132 || r != 50 {
		t.Errorf("%d columns, %d rows", c, r)
	}
	if c, r := TerminalSize(os.Stdin.Name()); c != 80 || r != 24 {
		t.Errorf("%d columns, %d rows for something that is not a file", c, r)
	}
}
