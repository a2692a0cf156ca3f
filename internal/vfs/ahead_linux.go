package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// StartWriteback calls sync_file_range(2) with only SYNC_FILE_RANGE_WRITE.
func (f *osFile) StartWriteback(off, n int64) {
	_ = f.control("sync_file_range", func(fd int) error {
		return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
	}) // the next Datasync reports a failed write-back
}

// Writeback calls sync_file_range(2) with all of its flags. With one of the flags to wait, the call
// takes the file's error, so the next Datasync reports none.
func (f *osFile) Writeback(off, n int64) error {
	err := f.control("sync_file_range", func(fd int) error {
		return unix.SyncFileRange(fd, off, n,
			unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	})
	for _, refused := range []error{unix.ENOSYS, unix.EPERM, unix.EINVAL, unix.ESPIPE, unix.EOPNOTSUPP} {
		if errors.Is(err, refused) {
			return nil // the call is not available here: nothing was written back, and nothing was lost
		}
	}
	return err
}

// adviseStep is the range of one advice, in bytes: of a longer range the kernel reads only the
// first few hundred KiB, depending on the device.
const adviseStep = 256 << 10

// StartRead calls posix_fadvise(2) with POSIX_FADV_WILLNEED.
func (f *osFile) StartRead(off, n int64) {
	_ = f.control("fadvise", func(fd int) error {
		for end := off + n; off < end; off += adviseStep {
			if err := unix.Fadvise(fd, off, min(adviseStep, end-off), unix.FADV_WILLNEED); err != nil {
				return err
			}
		}
		return nil
	}) // ReadAt reports errors
}

// SetReadAhead calls posix_fadvise(2) with POSIX_FADV_NORMAL or POSIX_FADV_RANDOM.
func (f *osFile) SetReadAhead(on bool) {
	advice := unix.FADV_RANDOM
	if on {
		advice = unix.FADV_NORMAL
	}
	_ = f.control("fadvise", func(fd int) error {
		return unix.Fadvise(fd, 0, 0, advice)
	}) // it only changes how fast ReadAt is
}
