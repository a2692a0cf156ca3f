package cli

import (
	"errors"
	"fmt"
)

// Exit codes of chronikctl and chronik-bench. They are stable: scripts may rely on them.
const (
	ExitOK          = 0
	ExitFailed      = 1 // the broker refused the request, or only part of the work was done
	ExitUsage       = 2 // the command line is wrong; nothing was sent
	ExitUnreachable = 3 // no broker answered
	ExitUnhealthy   = 4 // a check found something wrong
)

// coded is an error with an exit code.
type coded struct {
	code int
	err  error
}

func (e *coded) Error() string { return e.err.Error() }
func (e *coded) Unwrap() error { return e.err }

// WithCode attaches an exit code to err. It returns nil if err is nil.
func WithCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code, err}
}

// Usage returns an error about the command line, with exit code ExitUsage.
func Usage(format string, args ...any) error {
	return &coded{ExitUsage, fmt.Errorf(format, args...)}
}

// ExitCode returns the exit code for err: ExitFailed unless WithCode or Usage set another.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if e := (*coded)(nil); errors.As(err, &e) {
		return e.code
	}
	return ExitFailed
}
