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
