//go:build !linux

package network

import (
	"errors"
	"syscall"
)

// pollSet exists on Linux only; elsewhere every connection is read by its
// goroutine.
type pollSet struct{}

type setEvent struct {
	id    int32
	ended bool
}

func newPollSet() (*pollSet, error) { return nil, nil }

func (*pollSet) wait() ([]setEvent, error)                 { return nil, errors.ErrUnsupported }
func (*pollSet) arm(syscall.RawConn, int32, *bool) error   { return errors.ErrUnsupported }
func (*pollSet) read(syscall.RawConn, []byte) (int, error) { return 0, errors.ErrUnsupported }
func (*pollSet) close()                                    {}

type rawWriter struct{}

func (rawWriter) write(syscall.RawConn, []byte) (int, error) { return 0, errors.ErrUnsupported }
