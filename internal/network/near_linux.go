package network

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setSendBuffer sets the send buffer of a socket, and reports whether it did. With near, it does so
// only if the client is near.
func setSendBuffer(nc net.Conn, size int, near bool) (done bool) {
	socket, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		if near {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			if err != nil {
				return
			}
			trip := time.Duration(info.Min_rtt) * time.Microsecond // 0: not measured
			if trip == 0 || trip > nearTime {
				return
			}
		}
		done = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, size) == nil
	}) // the next write reports a closed socket
	return done
}

// unsent returns how many bytes of a connection its client's machine has not received: they are in
// the socket's send buffer. It is 0 if nc is nil, or no TCP connection.
func unsent(nc net.Conn) (n int64) {
	socket, ok := below(nc).(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if bytes, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			n = int64(bytes)
		}
	}) // of a closed socket, nothing is unsent
	return n
}
