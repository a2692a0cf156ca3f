package vfs

// backWriter is a File whose written bytes can be sent to the disk ahead of a Datasync.
type backWriter interface {
	StartWriteback(off, n int64)
}

// StartWriteback has the system begin to write the bytes [off, off+n) of f to the
// disk, where it can, so that the next Datasync finds less to do and holds up those
// of other files less. It waits for nothing, and makes nothing durable: errors are
// Datasync's to report.
func StartWriteback(f File, off, n int64) {
	if w, ok := f.(backWriter); ok {
		w.StartWriteback(off, n)
	}
}

// aheadReader is a File whose bytes can be brought into memory ahead of a ReadAt.
type aheadReader interface {
	StartRead(off, n int64)
}

// StartRead has the system begin to read the bytes [off, off+n) of f, where it can, so
// that a ReadAt that wants them later finds them in memory. It does not wait for the
// disk; errors are ReadAt's to report.
func StartRead(f File, off, n int64) {
	if r, ok := f.(aheadReader); ok {
		r.StartRead(off, n)
	}
}
