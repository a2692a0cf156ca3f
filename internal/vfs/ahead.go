package vfs

// backWriter is a File whose written bytes can be sent to the disk before a Datasync.
type backWriter interface {
	StartWriteback(off, n int64)
	Writeback(off, n int64) error
}

// StartWriteback asks the system to start writing the bytes [off, off+n) of f to the disk, if
// supported. The next Datasync then has less to do and delays those of other files less.
// StartWriteback does not wait and makes nothing durable; Datasync reports errors.
func StartWriteback(f File, off, n int64) {
	if w, ok := f.(backWriter); ok {
		w.StartWriteback(off, n)
	}
}

// Writeback sends the bytes [off, off+n) of f to the disk and waits until it has them, if
// supported. It makes nothing durable: the disk may keep them in its own cache. An error means that
// bytes of the file were lost, and a later Datasync may not report it again.
func Writeback(f File, off, n int64) error {
	if w, ok := f.(backWriter); ok {
		return w.Writeback(off, n)
	}
	return nil
}

// aheadReader is a File whose bytes can be read into memory before a ReadAt.
type aheadReader interface {
	StartRead(off, n int64)
}

// StartRead asks the system to start reading the bytes [off, off+n) of f, if supported, so that a
// later ReadAt finds them in memory. It does not wait for the disk; ReadAt reports errors.
func StartRead(f File, off, n int64) {
	if r, ok := f.(aheadReader); ok {
		r.StartRead(off, n)
	}
}

// aheadSwitcher is a File whose read-ahead by the system can be switched off.
type aheadSwitcher interface {
	SetReadAhead(on bool)
}

// SetReadAhead sets whether the system reads more of f from the disk than a ReadAt asks for, if
// that is supported. It is on for a file that was just opened.
func SetReadAhead(f File, on bool) {
	if s, ok := f.(aheadSwitcher); ok {
		s.SetReadAhead(on)
	}
}
