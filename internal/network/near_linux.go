package network

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setNearBuffer sets the send buffer of a socket if the client is near, and reports whether it did.
func setNearBuffer(nc net.Conn, size int) (near bool) {
	socket, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		near = err == nil && time.Duration(info.Min_rtt)*time.Microsecond <= nearTime &&
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, size) == nil
	}) // the next write reports a closed socket
	return near
}
