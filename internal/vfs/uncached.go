package vfs

// uncachedWriter is a File that can write bytes without keeping them in memory.
type uncachedWriter interface {
	WriteVecUncached(bufs [][]byte, off int64) (n int, err error)
}

// WriteVecUncached is f.WriteVecAt for bytes that are unlikely to be read soon. If supported, the
// system writes them to the disk at once and drops them from the page cache; otherwise it is the
// same. Neither makes them durable, nor changes what a later Datasync guarantees and reports.
func WriteVecUncached(f File, bufs [][]byte, off int64) (n int, err error) {
	if w, ok := f.(uncachedWriter); ok {
		return w.WriteVecUncached(bufs, off)
	}
	return f.WriteVecAt(bufs, off)
}

// uncachedReader is a File that can be read without keeping the bytes in memory.
type uncachedReader interface {
	ReadUncached(p []byte, off int64) (n int, err error)
}

// ReadUncached is f.ReadAt for bytes that are unlikely to be read again soon. If supported, bytes
// that are not in the page cache are not kept there, and bytes that are there stay; otherwise it is
// the same.
func ReadUncached(f File, p []byte, off int64) (n int, err error) {
	if r, ok := f.(uncachedReader); ok {
		return r.ReadUncached(p, off)
	}
	return f.ReadAt(p, off)
}
