package cmdline

import (
	"errors"
	"fmt"
)

// Exit codes that chronikctl and chronik-bench have in common. They are stable:
// scripts may rely on them.
const (
	ExitOK          = 0
	ExitFailed      = 1 // the broker refused, or not all of it was done
	ExitUsage       = 2 // what was asked for is wrong; nothing was sent
	ExitUnreachable = 3 // no broker answered
	ExitUnhealthy   = 4 // a check found something wrong
)

// coded is an error with the code it ends the process with.
type coded struct {
	code int
	err  error
}

func (e *coded) Error() string { return e.err.Error() }
func (e *coded) Unwrap() error { return e.err }

// WithCode returns an error that ends the process with this code; nil for none.
func WithCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code, err}
}

// Usage is an error of the command line.
func Usage(format string, args ...any) error {
	return &coded{ExitUsage, fmt.Errorf(format, args...)}
}

// ExitCode is the code that an error ends the process with.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if e := (*coded)(nil); errors.As(err, &e) {
		return e.code
	}
	return ExitFailed
}
