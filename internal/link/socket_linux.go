package link

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// metaSendBuffer bounds what waits in the kernel before a heartbeat, behind pieces of a snapshot:
// at 100 Mbit/s it takes 80 ms.
const metaSendBuffer = 512 << 10

// tune makes the kernel end a connection whose peer acknowledges nothing for three times the
// silence. Three, because the kernel also counts the time in which a busy peer's window is closed.
// The rest of the package does not depend on it.
func tune(nc net.Conn, lane Lane, silence time.Duration) {
	sc, ok := socket(nc).(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return // it is closed, as its reader will notice
	}
	_ = raw.Control(func(fd uintptr) { // a socket of another kind refuses it
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(3*silence.Milliseconds()))
		if lane == Meta {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, metaSendBuffer/2) // the kernel doubles it
		}
	})
}

// rawWriter writes several pieces to a socket with one system call. It belongs to the writing role.
type rawWriter struct {
	raw syscall.RawConn // nil if the connection is not a plain socket
	iov [1024]unix.Iovec
	use int
	n   int
	err error

	once func(fd uintptr)      // made once
	loop func(fd uintptr) bool // made once
}

func (w *rawWriter) init(nc net.Conn) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	w.raw = raw
	w.once = func(fd uintptr) { w.writev(fd) }
	w.loop = func(fd uintptr) bool {
		w.writev(fd)
		return !errors.Is(w.err, unix.EAGAIN)
	}
}

func (w *rawWriter) able() bool { return w.raw != nil }

// set makes parts, without the first off bytes, the next to write.
func (w *rawWriter) set(parts [][]byte, off int) {
	w.use = min(len(parts), len(w.iov))
	for i, p := range parts[:w.use] {
		p = p[off:]
		w.iov[i].Base = &p[0]
		w.iov[i].SetLen(len(p))
		off = 0
	}
}

func (w *rawWriter) writev(fd uintptr) {
	for {
		n, _, errno := unix.Syscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&w.iov[0])), uintptr(w.use))
		switch errno {
		case 0:
			w.n, w.err = int(n), nil
		case unix.EINTR:
			continue
		default:
			w.n, w.err = 0, errno
		}
		return
	}
}

// try writes what the socket takes at once; it returns 0 if that is nothing.
func (w *rawWriter) try(parts [][]byte, off int) (int, error) {
	w.set(parts, off)
	if err := w.raw.Control(w.once); err != nil {
		return 0, err
	}
	return w.result()
}

// wait writes some bytes, and waits until the socket takes them or its write deadline is over.
func (w *rawWriter) wait(parts [][]byte, off int) (int, error) {
	w.set(parts, off)
	w.n, w.err = 0, nil
	if err := w.raw.Write(w.loop); err != nil {
		clear(w.iov[:w.use])
		return 0, err
	}
	return w.result()
}

func (w *rawWriter) result() (int, error) {
	clear(w.iov[:w.use]) // so that the memory is not kept
	switch {
	case w.err == nil:
		return w.n, nil
	case errors.Is(w.err, unix.EAGAIN):
		return 0, nil
	}
	return 0, os.NewSyscallError("writev", w.err)
}
