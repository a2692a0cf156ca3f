package network

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// narrow sets the send buffer of a socket to nearBuffer if the client is near, and reports whether
// it did. Once set, the kernel does not change it.
func narrow(nc net.Conn) (near bool) {
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
		if near = err == nil && time.Duration(info.Min_rtt)*time.Microsecond <= nearTime; near {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, nearBuffer) // otherwise it is only slower for others
		}
	}) // the next write reports a closed socket
	return near
}
