package bufpool

import "golang.org/x/sys/unix"

// mapMemory maps n bytes that are zero. Pages become memory when they are written, one by one:
// huge pages would be memory that nothing counts.
func mapMemory(n int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err == nil {
		_ = unix.Madvise(mem, unix.MADV_NOHUGEPAGE) // fails on kernels that have none
	}
	return mem, err
}

// shrinkMemory returns the first n bytes of mapped memory, where they are, and unmaps the rest.
func shrinkMemory(mem []byte, n int) []byte {
	if less, err := unix.Mremap(mem, n, 0); err == nil {
		return less
	}
	return mem
}

func unmapMemory(mem []byte) { _ = unix.Munmap(mem) } // mapped memory can be unmapped
