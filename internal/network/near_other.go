//go:build !linux

package network

import "net"

// unsent returns 0: it is not known how many bytes the socket still has.
func unsent(net.Conn) int64 { return 0 }

// setSendBuffer leaves the buffers to the system.
func setSendBuffer(net.Conn, int, bool) bool { return false }
