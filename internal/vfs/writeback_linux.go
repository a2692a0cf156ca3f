package vfs

import "golang.org/x/sys/unix"

// StartWriteback is sync_file_range(2) with SYNC_FILE_RANGE_WRITE alone.
func (f *osFile) StartWriteback(off, n int64) {
	_ = f.control("sync_file_range", func(fd int) error {
		return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
	}) // a write-back that fails is reported by the next Datasync
}
