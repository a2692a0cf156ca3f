//go:build !linux

package limits

import "os"

// syncName is the system call of datasync.
const syncName = "fsync"

// datasync replaces fdatasync on systems without it; reports name the call.
func datasync(f *os.File) error { return f.Sync() }
