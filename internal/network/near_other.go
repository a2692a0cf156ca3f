//go:build !linux

package network

import "net"

// setNearBuffer leaves the buffers to the system.
func setNearBuffer(net.Conn, int) bool { return false }
