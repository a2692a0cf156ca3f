//go:build !linux

package forward

import (
	"errors"
	"net"

	"github.com/chronik-io/chronik/internal/bufpool"
)

// rawWriter is never able here.
type rawWriter struct{}

func (w *rawWriter) init(net.Conn) {}

func (w *rawWriter) able() bool { return false }

func (w *rawWriter) try([]byte, *bufpool.Pool) (int, error) { return 0, errors.ErrUnsupported }
