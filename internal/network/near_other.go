//go:build !linux

package network

import "net"

// setSendBuffer leaves the buffers to the system.
func setSendBuffer(net.Conn, int, bool) bool { return false }
