package vfs

// onceWriter is a File that can be told which bytes need not stay in memory.
type onceWriter interface {
	WriteVecOnce(bufs [][]byte, off int64) (n int, err error)
}

// WriteVecOnce is f.WriteVecAt for bytes that nobody is expected to read soon. Where
// the system can it writes them to the disk at once and keeps them in no cache;
// elsewhere it is the same. Neither makes them durable, nor changes what a later
// Datasync promises and reports.
func WriteVecOnce(f File, bufs [][]byte, off int64) (n int, err error) {
	if w, ok := f.(onceWriter); ok {
		return w.WriteVecOnce(bufs, off)
	}
	return f.WriteVecAt(bufs, off)
}
