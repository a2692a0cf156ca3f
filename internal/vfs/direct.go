package vfs

import "unsafe"

// DirectBlock is the alignment of WriteDirect's positions, lengths and memory, in bytes. No disk in
// use requires more.
const DirectBlock = 4096

// DirectBuffer returns n zero bytes of memory for WriteDirect.
func DirectBuffer(n int) []byte {
	b := make([]byte, n+DirectBlock)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (DirectBlock - 1))
	return b[skip : skip+n : skip+n]
}

// directWriter is a File that can write without the page cache.
type directWriter interface {
	WriteDirect(p []byte, off int64) (n int, err error)
}

// WriteDirect is f.WriteAt for bytes that are synced soon and not read. If supported, it writes
// them to the disk without a copy in the page cache, which costs less processor time and memory;
// otherwise it is the same. It does not make them durable, and Datasync guarantees the same as
// before. p must come from DirectBuffer; p, its length and off must be multiples of DirectBlock.
func WriteDirect(f File, p []byte, off int64) (n int, err error) {
	if w, ok := f.(directWriter); ok {
		return w.WriteDirect(p, off)
	}
	return f.WriteAt(p, off)
}
