package terminal

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// readWait is how long a read of a terminal in character mode waits for a key, in tenths of
// a second: VTIME of termios(3).
const readWait = 1

// CharacterMode puts a terminal into character mode: a read returns each key at once and
// without an echo, and no bytes (io.EOF) after 100 ms without one, so that who reads can
// end. Signals of keys, such as Ctrl-C, and output work as before. restore undoes it.
func CharacterMode(f *os.File) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(int(f.Fd()), readTermios)
	if err != nil {
		return nil, fmt.Errorf("read the terminal's settings: %w", err)
	}
	now := *before
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 0, readWait
	if err := unix.IoctlSetTermios(int(f.Fd()), writeTermios, &now); err != nil {
		return nil, fmt.Errorf("set the terminal to character mode: %w", err)
	}
	return func() { _ = unix.IoctlSetTermios(int(f.Fd()), writeTermios, before) }, nil // a terminal that is gone needs none
}

// TerminalSize returns the columns and rows of a terminal; 80 and 24 where it has no size.
func TerminalSize(stream any) (columns, rows int) {
	if f, ok := stream.(*os.File); ok && f != nil {
		if w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && w.Col > 0 && w.Row > 0 {
			return int(w.Col), int(w.Row)
		}
	}
	return 80, 24
}
