//go:build !linux

package network

import (
	"errors"
	"net"
)

// pollSet exists on Linux only. Elsewhere every connection is read by its own goroutine, and stays
// with Go's poller.
type pollSet struct{}

type setEvent struct {
	id, tag int32
	ended   bool
}

func newPollSet() (*pollSet, error) { return nil, nil }

func (*pollSet) wait() ([]setEvent, error)       { return nil, errors.ErrUnsupported }
func (*pollSet) arm(*conn) error                 { return errors.ErrUnsupported }
func (*pollSet) watchEnd(*conn) error            { return errors.ErrUnsupported }
func (*pollSet) forget(*conn) error              { return errors.ErrUnsupported }
func (*pollSet) move(*conn, int) error           { return errors.ErrUnsupported }
func (*pollSet) read(*conn, []byte) (int, error) { return 0, errors.ErrUnsupported }
func (*pollSet) close()                          {}
func (*pollSet) free()                           {}

func (*socket) duplicate() (int, error)   { return -1, errors.ErrUnsupported }
func (*socket) stream() (net.Conn, error) { return nil, errors.ErrUnsupported }

func hangUp(int)      {}
func closeSocket(int) {}

type rawWriter struct{}

func (rawWriter) write(*conn, []byte) (int, error) { return 0, errors.ErrUnsupported }
