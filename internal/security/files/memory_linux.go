package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// inMemory reports whether a file is on a file system whose content never reaches a disk.
func inMemory(f *os.File) bool {
	var s unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &s)
	return err == nil && (s.Type == unix.TMPFS_MAGIC || s.Type == unix.RAMFS_MAGIC)
}
