package vfs

import (
	"errors"
	"syscall"
)

// Full reports whether an error says that a file system, or the quota of a user, is full.
func Full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
