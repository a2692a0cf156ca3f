package forward

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/bufpool"
)

// maxCopy is the largest frame that is copied behind its length: a write of two pieces costs more.
const maxCopy = 2 << 10

// rawWriter writes frames to a plain socket without waiting for it. It belongs to tunnel.mu.
type rawWriter struct {
	raw    syscall.RawConn // nil if the connection is not a plain socket
	length [4]byte
	parts  [2][]byte // the first is empty if one write is enough
	n      int
	err    error
	write  func(fd uintptr) // made once
}

func (w *rawWriter) init(nc net.Conn) {
	for {
		above, ok := nc.(interface{ NetConn() net.Conn })
		if _, secure := nc.(*tls.Conn); !ok || secure {
			break
		}
		nc = above.NetConn()
	}
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // it is closed, as the reader will notice
	}
	w.raw = raw
	w.write = func(fd uintptr) {
		for {
			if w.parts[0] == nil {
				w.n, w.err = unix.Write(int(fd), w.parts[1])
			} else {
				w.n, w.err = unix.Writev(int(fd), w.parts[:])
			}
			if !errors.Is(w.err, unix.EINTR) {
				return
			}
		}
	}
}

func (w *rawWriter) able() bool { return w.raw != nil }

// try writes as much of a frame and its length as the socket takes at once, and returns how much
// that is.
func (w *rawWriter) try(frame []byte, pool *bufpool.Pool) (int, error) {
	if len(frame) <= maxCopy {
		whole := pool.Get(4 + len(frame))
		defer whole.Release()
		w.parts[1] = whole.Bytes()
		binary.BigEndian.PutUint32(w.parts[1], uint32(len(frame)))
		copy(w.parts[1][4:], frame)
	} else {
		binary.BigEndian.PutUint32(w.length[:], uint32(len(frame)))
		w.parts = [2][]byte{w.length[:], frame}
	}
	err := w.raw.Control(w.write)
	w.parts = [2][]byte{}
	switch {
	case err != nil:
		return 0, err
	case errors.Is(w.err, unix.EAGAIN):
		return 0, nil
	case w.err != nil:
		return 0, os.NewSyscallError("writev", w.err)
	}
	return w.n, nil
}
