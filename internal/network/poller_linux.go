package network

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollEvents is how many connections one look at a pollSet finds at most.
const pollEvents = 256

// pollSet is an epoll instance which Go's own poller watches: its goroutine
// sleeps like any other, and one look then finds all connections that have something
// to read. Connections are edge-triggered: an event comes when bytes arrive, and
// not again while they are unread.
type pollSet struct {
	file   *os.File
	raw    syscall.RawConn
	events [pollEvents]unix.EpollEvent
	found  []setEvent
	look   func(fd uintptr) bool // made once
	err    error

	in rawReader
}

// setEvent is an event of the connection with an id.
type setEvent struct {
	id    int32
	ended bool
}

func newPollSet() (*pollSet, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that os.NewFile has it watched
		return nil, errors.Join(fmt.Errorf("set an epoll instance non-blocking: %w", err), unix.Close(fd))
	}
	s := &pollSet{file: os.NewFile(uintptr(fd), "epoll")}
	// A file that Go's poller does not watch has no deadlines.
	if err = s.file.SetReadDeadline(time.Time{}); err == nil {
		s.raw, err = s.file.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch an epoll instance: %w", err), s.file.Close())
	}
	s.look = s.lookNow
	return s, nil
}

// wait sleeps until there are events and returns them; they are valid until the
// next call. The error says that the set is closed.
func (s *pollSet) wait() ([]setEvent, error) {
	if err := s.raw.Read(s.look); err != nil {
		return nil, err
	}
	return s.found, s.err
}

func (s *pollSet) lookNow(fd uintptr) bool {
	n, err := unix.EpollWait(int(fd), s.events[:], 0)
	if errors.Is(err, unix.EINTR) {
		n, err = 0, nil
	}
	s.found, s.err = s.found[:0], err
	for _, e := range s.events[:max(n, 0)] {
		s.found = append(s.found, setEvent{e.Fd, e.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0})
	}
	return n > 0 || err != nil
}

// arm adds a connection, or asks for an event again if there is anything to read.
func (s *pollSet) arm(c syscall.RawConn, id int32, known *bool) error {
	var err error
	outer := s.raw.Control(func(set uintptr) {
		op := unix.EPOLL_CTL_ADD
		if *known {
			op = unix.EPOLL_CTL_MOD
		}
		e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET, Fd: id}
		inner := c.Control(func(fd uintptr) { err = unix.EpollCtl(int(set), op, int(fd), &e) })
		err = errors.Join(err, inner)
	})
	if err = errors.Join(err, outer); err == nil {
		*known = true
	}
	return err
}

func (s *pollSet) read(c syscall.RawConn, p []byte) (int, error) { return s.in.read(c, p) }

func (s *pollSet) close() { _ = s.file.Close() } // nothing is lost with it

// rawReader reads sockets without waiting. It belongs to one goroutine.
type rawReader struct {
	p   []byte
	n   int
	err error
	fn  func(fd uintptr) // made once
}

// read returns no bytes and no error where there is nothing to read now.
func (r *rawReader) read(c syscall.RawConn, p []byte) (int, error) {
	if r.fn == nil {
		r.fn = func(fd uintptr) {
			for {
				r.n, r.err = unix.Read(int(fd), r.p)
				if !errors.Is(r.err, unix.EINTR) {
					return
				}
			}
		}
	}
	r.p = p
	if err := c.Control(r.fn); err != nil {
		return 0, err
	}
	switch {
	case errors.Is(r.err, unix.EAGAIN):
		return 0, nil
	case r.err != nil:
		return 0, os.NewSyscallError("read", r.err)
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

// rawWriter writes to sockets without waiting. It belongs to one goroutine.
type rawWriter struct {
	p   []byte
	n   int
	err error
	fn  func(fd uintptr) // made once
}

// write returns how many bytes the socket took.
func (w *rawWriter) write(c syscall.RawConn, p []byte) (int, error) {
	if w.fn == nil {
		w.fn = func(fd uintptr) {
			for {
				w.n, w.err = unix.Write(int(fd), w.p)
				if !errors.Is(w.err, unix.EINTR) {
					return
				}
			}
		}
	}
	w.p = p
	err := c.Control(w.fn)
	w.p = nil
	switch {
	case err != nil:
		return 0, err
	case errors.Is(w.err, unix.EAGAIN):
		return 0, nil
	case w.err != nil:
		return 0, os.NewSyscallError("write", w.err)
	}
	return w.n, nil
}
