package vfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func datasync(fd int) error { return unix.Fdatasync(fd) }

func allocate(fd int, off, n int64) error { return unix.Fallocate(fd, 0, off, n) }

// syncDir uses fsync, because fdatasync of a directory guarantees nothing about its entries.
func syncDir(d *os.File) error {
	if err := unix.Fsync(int(d.Fd())); err != nil {
		return &fs.PathError{Op: "fsync", Path: d.Name(), Err: err}
	}
	return nil
}

// blockSize returns the unit of the counts in st, in bytes.
func blockSize(st *unix.Statfs_t) uint64 {
	if st.Frsize > 0 {
		return uint64(st.Frsize)
	}
	return uint64(st.Bsize)
}

// SystemMemory returns the size of the machine's memory in bytes; 0 if it is unknown.
func SystemMemory() int64 {
	var st unix.Sysinfo_t
	if err := unix.Sysinfo(&st); err != nil {
		return 0
	}
	return int64(min(st.Totalram*uint64(st.Unit), 1<<62))
}
