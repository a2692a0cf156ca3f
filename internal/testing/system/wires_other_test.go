//go:build !linux

package system

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
)

// wires are not available: they are made of network namespaces.
type wires struct{ hosts []*wireHost }

type wireHost struct{ addr netip.Addr }

func newWires(*testing.T, int, uint64) (*wires, error) { return nil, errors.ErrUnsupported }

func (*wires) set([]wire, map[wire]slowness) {}

func (*wires) at(int, func() error) error { return errors.ErrUnsupported }

func (*wires) dial(context.Context, int, string, string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}
