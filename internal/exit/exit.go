// Package exit has the exit codes of chronikd, and the errors that carry one.
//
// An error of a start is one line with the cause and the remedy: whatever finds that a broker
// cannot start says so with the code of its kind, and the command line prints the line and ends
// with the code. The package imports no other package of this module.
package exit

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
)

// Exit codes of chronikd. They are stable, so that supervisors can rely on them.
const (
	OK      = 0
	Failed  = 1 // something failed while running
	Usage   = 2 // the command line or the configuration is wrong
	Data    = 3 // a directory is in use, not writable, damaged, of a newer format or another broker's
	Address = 4 // an address cannot be bound
	Cut     = 5 // another signal ended the process before it had drained
)

// Help is the section of --help about exit codes.
const Help = "Exit codes: 0 stopped as asked, 1 failed while running, 2 wrong command line or configuration,\n" +
	"3 a directory is in use, not writable, damaged, of a newer format or another broker's, 4 an address cannot be bound,\n" +
	"5 another signal ended it before it had drained."

// MoreFiles is the remedy for too many open files.
const MoreFiles = "raise the limit of open files: LimitNOFILE in the unit, ulimit -n in a shell"

// Error is an error with the exit code of the process.
type Error struct {
	Code int
	Err  error
}

// With returns err as an *Error.
func With(code int, err error) error { return &Error{code, err} }

// Error returns the cause and the remedy in one line.
func (e *Error) Error() string { return strings.ReplaceAll(e.Err.Error(), "\n", "; ") }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the exit code for an error: Failed unless it has an *Error.
func CodeOf(err error) int {
	if err == nil {
		return OK
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return Failed
}

// Cause returns the innermost reason of an error of net, whose outer texts repeat the address.
func Cause(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	if name := (*net.DNSError)(nil); errors.As(err, &name) {
		return fmt.Errorf("the name %s: %s", name.Name, name.Err)
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}
