package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Exit codes of chronikd. They are stable: supervisors may rely on them.
const (
	ExitOK      = 0
	ExitFailed  = 1 // something failed while running
	ExitUsage   = 2 // the command line or the configuration is wrong
	ExitData    = 3 // a directory is in use, not writable, or of a newer format
	ExitAddress = 4 // an address cannot be bound
)

// exitCodes is told by --help.
const exitCodes = "Exit codes: 0 stopped as asked, 1 failed while running, 2 wrong command line or configuration,\n" +
	"3 a directory is in use, not writable, damaged or of a newer format, 4 an address cannot be bound."

// ExitError is an error with the code that it ends the process with.
type ExitError struct {
	Code int
	Err  error
}

// Error is the cause and the remedy, in one line.
func (e *ExitError) Error() string { return strings.ReplaceAll(e.Err.Error(), "\n", "; ") }

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode returns the code that an error of Run ends the process with.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if e := (*ExitError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ExitFailed
}

// dataError explains why a directory cannot be used. setting is the one that
// names it.
func dataError(setting, dir string, err error) error {
	remedy := "choose another with " + setting
	switch {
	case errors.Is(err, vfs.ErrLocked):
		remedy = "stop that broker, or give this one a directory of its own with " + setting
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		remedy = "make it writable for this user, or " + remedy
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		remedy = "free space on its file system, or " + remedy
	}
	return &ExitError{ExitData, fmt.Errorf("directory %s: %w; %s", dir, err, remedy)}
}

// addressError explains why an address cannot be bound. setting is the one that
// names it.
func addressError(setting, address string, err error) error {
	remedy := "check " + setting
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		remedy = "another process listens there: stop it, or choose another address with " + setting
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		remedy = "this machine has no such address: choose one of its own with " + setting
	case errors.Is(err, syscall.EACCES):
		remedy = "ports below 1024 need a privilege: choose a higher one with " + setting
	}
	return &ExitError{ExitAddress, fmt.Errorf("cannot listen on %s: %w; %s", address, cause(err), remedy)}
}

// cause takes the innermost errno out of net's wrapping, which repeats the
// address.
func cause(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}
