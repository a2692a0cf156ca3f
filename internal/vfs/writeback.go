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
