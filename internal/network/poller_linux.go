package network

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollEvents bounds how many connections one epoll_wait returns.
const pollEvents = 256

const (
	// busyWait bounds how long a pollSet sleeps in the kernel. That occupies a processor of Go's
	// scheduler, whose monitor checks it every 20 µs.
	busyWait = time.Millisecond
	// busyGap is what counts as a short time between two requests.
	busyGap = 300 * time.Microsecond
)

// pollSet is an epoll instance. One goroutine at a time waits in it. While requests come often,
// that goroutine sleeps in the kernel: the request itself wakes it, and Go's poller wakes no thread
// in addition. Otherwise it sleeps like any other goroutine, and Go's poller watches the epoll
// instance.
//
// Connections are edge-triggered: an event comes when bytes arrive, and not again while they are
// unread.
type pollSet struct {
	fd     int
	alarm  int // an eventfd in the set, which ends wait
	events [pollEvents]unix.EpollEvent
	found  []setEvent
	n      int
	err    error
	look   func(fd uintptr) bool // made once

	// The file that Go's poller watches; nil while requests come often.
	watched *os.File
	raw     syscall.RawConn

	in rawReader
}

// setEvent is an event of the connection that was added with this id and tag.
type setEvent struct {
	id, tag int32
	ended   bool
}

// alarmID is the id of the eventfd; no connection has it.
const alarmID = -1

func newPollSet() (*pollSet, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	alarm, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("eventfd: %w", err), unix.Close(fd))
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that os.NewFile makes Go's poller watch it
		return nil, errors.Join(fmt.Errorf("set an epoll instance non-blocking: %w", err), unix.Close(fd), unix.Close(alarm))
	}
	s := &pollSet{fd: fd, alarm: alarm}
	s.look = func(uintptr) bool { return s.find(0) }
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: alarmID}
	if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, alarm, &e); err != nil {
		s.free()
		return nil, fmt.Errorf("watch an eventfd: %w", err)
	}
	return s, nil
}

// wait sleeps until there are events and returns them; they are valid until the next call. After
// close it returns errSetClosed.
func (s *pollSet) wait() ([]setEvent, error) {
	for more := false; !more; {
		switch {
		case s.watched != nil:
			start := time.Now()
			if err := s.raw.Read(s.look); err != nil {
				return nil, err
			}
			more = true
			// With a single processor, sleeping in the kernel would make all other goroutines wait.
			if time.Since(start) < busyGap && runtime.GOMAXPROCS(0) > 1 {
				s.unwatch()
			}
		case s.find(busyWait):
			more = true
		default:
			s.watch()
		}
	}
	if s.err != nil {
		return nil, os.NewSyscallError("epoll_wait", s.err)
	}
	s.found = s.found[:0]
	for _, e := range s.events[:s.n] {
		if e.Fd == alarmID {
			return nil, errSetClosed
		}
		s.found = append(s.found, setEvent{e.Fd, e.Pad, e.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0})
	}
	return s.found, nil
}

// find waits for events, or an error, for at most wait, and reports whether there are any.
func (s *pollSet) find(wait time.Duration) bool {
	s.n, s.err = unix.EpollWait(s.fd, s.events[:], int(wait.Milliseconds()))
	if errors.Is(s.err, unix.EINTR) {
		s.n, s.err = 0, nil
	}
	return s.n > 0 || s.err != nil
}

// watch makes Go's poller watch the set. If there is no free descriptor for that, wait works
// without it.
func (s *pollSet) watch() {
	fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "epoll")
	// A file that Go's poller does not watch does not support deadlines.
	raw, err := f.SyscallConn()
	if err = errors.Join(err, f.SetReadDeadline(time.Time{})); err != nil {
		_ = f.Close() // it was never used
		return
	}
	s.watched, s.raw = f, raw
}

func (s *pollSet) unwatch() {
	_ = s.watched.Close() // the set stays open
	s.watched, s.raw = nil, nil
}

// watchEnd adds a connection, only for the event of its end.
func (s *pollSet) watchEnd(c *conn) error {
	e := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET, Fd: c.poll.id, Pad: c.pollTag()}
	var err error
	outer := c.sock.control(func(fd uintptr) { err = unix.EpollCtl(s.fd, unix.EPOLL_CTL_ADD, int(fd), &e) })
	return errors.Join(err, outer)
}

// arm adds a connection, or requests another event if there is anything to read.
func (s *pollSet) arm(c *conn) error {
	op := unix.EPOLL_CTL_ADD
	if c.poll.armed {
		op = unix.EPOLL_CTL_MOD
	}
	var err error
	outer := c.sock.control(func(fd uintptr) { err = s.ctl(op, int(fd), c) })
	if err = errors.Join(err, outer); err == nil {
		c.poll.armed = true
	}
	return err
}

// forget removes a connection.
func (s *pollSet) forget(c *conn) error {
	var err error
	outer := c.sock.control(func(fd uintptr) { err = s.ctl(unix.EPOLL_CTL_DEL, int(fd), c) })
	return errors.Join(err, outer)
}

// move changes the descriptor by which the set watches a connection to another one of its socket.
func (s *pollSet) move(c *conn, to int) error {
	var err error
	outer := c.sock.control(func(fd uintptr) { err = s.ctl(unix.EPOLL_CTL_DEL, int(fd), c) })
	if err = errors.Join(err, outer); err == nil {
		err = s.ctl(unix.EPOLL_CTL_ADD, to, c)
	}
	c.poll.armed = err == nil
	return err
}

func (s *pollSet) ctl(op, fd int, c *conn) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET, Fd: c.poll.id, Pad: c.pollTag()}
	return unix.EpollCtl(s.fd, op, fd, &e)
}

func (s *pollSet) read(c *conn, p []byte) (int, error) { return s.in.read(c, p) }

// close ends wait for good.
func (s *pollSet) close() {
	_, _ = unix.Write(s.alarm, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // fails only if it counts 2⁶⁴ calls
}

// free closes the descriptors. No goroutine may be in wait.
func (s *pollSet) free() {
	if s.watched != nil {
		s.unwatch()
	}
	_, _ = unix.Close(s.fd), unix.Close(s.alarm) // an error loses nothing
}

// control calls fn with the socket's descriptor, which stays open during the call. The
// caller has the reading or the writing role.
func (s *socket) control(fn func(fd uintptr)) error {
	if s.fd >= 0 {
		fn(uintptr(s.fd))
		return nil
	}
	return s.raw.Control(fn)
}

// duplicate returns another descriptor.
func (s *socket) duplicate() (fd int, err error) {
	outer := s.control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, outer); err != nil {
		return -1, fmt.Errorf("duplicate a socket's descriptor: %w", err)
	}
	return fd, nil
}

// stream returns the socket as a net.Conn with a descriptor of its own.
func (s *socket) stream() (net.Conn, error) {
	fd, err := s.duplicate()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "socket")
	nc, err := net.FileConn(f)
	return nc, errors.Join(err, f.Close())
}

// hangUp ends the connection of a descriptor that other goroutines may be using.
func hangUp(fd int) { _ = unix.Shutdown(fd, unix.SHUT_RDWR) } // fails if the peer has ended it

func closeSocket(fd int) { _ = unix.Close(fd) } // a failed close takes nothing back that the peer was promised

// rawReader reads sockets without blocking. One goroutine uses it.
type rawReader struct {
	p   []byte
	n   int
	err error
	fn  func(fd uintptr) // made once
}

// read returns no bytes and no error if there is nothing to read now.
func (r *rawReader) read(c *conn, p []byte) (int, error) {
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
	if err := c.sock.control(r.fn); err != nil {
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

// rawWriter writes to sockets without blocking. One goroutine uses it.
type rawWriter struct {
	p   []byte
	n   int
	err error
	fn  func(fd uintptr) // made once
}

// write returns how many bytes the socket took.
func (w *rawWriter) write(c *conn, p []byte) (int, error) {
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
	err := c.sock.control(w.fn)
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
