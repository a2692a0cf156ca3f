package vfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// datasync uses F_FULLFSYNC: on macOS, fsync leaves the bytes in the drive's cache. Volumes that do
// not support it return an error, which is correct.
func datasync(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	return err
}

// allocate reserves n bytes after the end of the file, the only place F_PREALLOCATE supports; the
// caller extends the file over them.
func allocate(fd int, _, n int64) error {
	return unix.FcntlFstore(uintptr(fd), unix.F_PREALLOCATE, &unix.Fstore_t{
		Flags:   unix.F_ALLOCATEALL,
		Posmode: unix.F_PEOFPOSMODE,
		Length:  n,
	})
}

func syncDir(d *os.File) error {
	if err := datasync(int(d.Fd())); err != nil {
		return &fs.PathError{Op: "F_FULLFSYNC", Path: d.Name(), Err: err}
	}
	return nil
}

// blockSize returns the unit of the counts in st, in bytes.
func blockSize(st *unix.Statfs_t) uint64 { return uint64(st.Bsize) }

// SystemMemory returns the size of the machine's memory in bytes; 0 if it is unknown.
func SystemMemory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(min(n, 1<<62))
}
