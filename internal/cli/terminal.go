package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether a stream is a terminal. It asks the kernel for the settings that
// only a terminal has: /dev/null, a pipe and anything but an *os.File are not terminals.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok || f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), readTermios)
	return err == nil
}

// ReaderClosed reports whether a stream is a pipe whose reading end is closed. A program that
// waits with nothing to write would not notice otherwise. It is false for other streams.
func ReaderClosed(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok || f == nil {
		return false
	}
	ask := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(ask, 0)
	return err == nil && n > 0 && ask[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}

// ReadHidden asks for a line on a terminal that does not show what is typed, and returns it without
// the end of the line. The prompt and the line break go to out.
func ReadHidden(f *os.File, out io.Writer, prompt string) ([]byte, error) {
	before, err := unix.IoctlGetTermios(int(f.Fd()), readTermios)
	if err != nil {
		return nil, fmt.Errorf("read the terminal's settings: %w", err)
	}
	now := *before
	now.Lflag &^= unix.ECHO
	now.Lflag |= unix.ICANON | unix.ISIG
	if err := unix.IoctlSetTermios(int(f.Fd()), writeTermios, &now); err != nil {
		return nil, fmt.Errorf("hide what is typed: %w", err)
	}
	defer func() { _ = unix.IoctlSetTermios(int(f.Fd()), writeTermios, before) }() // a terminal that is gone needs no reset
	fmt.Fprint(out, prompt)
	line, err := bufio.NewReader(f).ReadBytes('\n')
	fmt.Fprintln(out)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read from the terminal: %w", err)
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
