package vfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// datasync uses F_FULLFSYNC: fsync on macOS leaves the bytes in the drive's
// cache. A volume that cannot do it answers with an error, which is the truth.
func datasync(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	return err
}

// allocate reserves n bytes behind the end of the file, which is where F_PREALLOCATE
// can; the caller extends the file over them.
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

// blockSize is the unit of the counts in st, in bytes.
func blockSize(st *unix.Statfs_t) uint64 { return uint64(st.Bsize) }

// SystemMemory returns how many bytes of memory the machine has; 0 if that isn't
// known.
func SystemMemory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(min(n, 1<<62))
}
