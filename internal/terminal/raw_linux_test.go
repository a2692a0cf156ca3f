package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

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

// In character mode a read returns one key, without an echo, and nothing where none is
// pressed; afterwards the terminal is as it was.
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
		t.Errorf("read %q, %v where no key was pressed", p[:n], err)
	}
	restore()
	after, err := unix.IoctlGetTermios(int(tty.Fd()), readTermios)
	if err != nil || *after != *before {
		t.Errorf("the terminal has %+v, %v; it had %+v", after, err, before)
	}
	if _, err := CharacterMode(open(t, os.DevNull)); err == nil {
		t.Error("a device that is no terminal is in character mode")
	}
}

func TestSize(t *testing.T) {
	_, tty := pty(t)
	if c, r := TerminalSize(tty); c != 80 || r != 24 {
		t.Errorf("%d columns, %d rows where there is no size", c, r)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 132, Row: 50}); err != nil {
		t.Fatal(err)
	}
	if c, r := TerminalSize(tty); c != 132 || r != 50 {
		t.Errorf("%d columns, %d rows", c, r)
	}
	if c, r := TerminalSize(os.Stdin.Name()); c != 80 || r != 24 {
		t.Errorf("%d columns, %d rows of what is no file", c, r)
	}
}
