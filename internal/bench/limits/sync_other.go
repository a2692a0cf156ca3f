//go:build !linux

package limits

import "os"

// syncName is the system call that datasync makes.
const syncName = "fsync"

// datasync stands in where there is no fdatasync; reports name it.
func datasync(f *os.File) error { return f.Sync() }
