//go:build !linux

package link

import (
	"errors"
	"net"
	"time"
)

func tune(net.Conn, Lane, time.Duration) {}

// rawWriter exists on Linux only. Elsewhere the connection's own goroutine writes everything.
type rawWriter struct{}

func (*rawWriter) init(net.Conn) {}
func (*rawWriter) able() bool    { return false }

func (*rawWriter) try([][]byte, int) (int, error)  { return 0, errors.ErrUnsupported }
func (*rawWriter) wait([][]byte, int) (int, error) { return 0, errors.ErrUnsupported }
