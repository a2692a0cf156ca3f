package vfs

import "golang.org/x/sys/unix"

// StartWriteback is sync_file_range(2) with SYNC_FILE_RANGE_WRITE alone.
func (f *osFile) StartWriteback(off, n int64) {
	_ = f.control("sync_file_range", func(fd int) error {
		return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
	}) // a write-back that fails is reported by the next Datasync
}

// adviseStep is how much one advice asks for: of a longer range the kernel reads only
// the beginning, some hundred KiB, as the device has it.
const adviseStep = 256 << 10

// StartRead is posix_fadvise(2) with POSIX_FADV_WILLNEED.
func (f *osFile) StartRead(off, n int64) {
	_ = f.control("fadvise", func(fd int) error {
		for end := off + n; off < end; off += adviseStep {
			if err := unix.Fadvise(fd, off, min(adviseStep, end-off), unix.FADV_WILLNEED); err != nil {
				return err
			}
		}
		return nil
	}) // who reads it hears of what is wrong
}
