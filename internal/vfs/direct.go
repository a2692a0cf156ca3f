package vfs

import "unsafe"

// DirectBlock is what the positions, the lengths and the memory of WriteDirect are
// multiples of, in bytes: no disk in use asks for more.
const DirectBlock = 4096

// DirectBuffer returns n bytes of memory for WriteDirect, all zero.
func DirectBuffer(n int) []byte {
	b := make([]byte, n+DirectBlock)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (DirectBlock - 1))
	return b[skip : skip+n : skip+n]
}

// directWriter is a File that can be told to leave the system's cache out.
type directWriter interface {
	WriteDirect(p []byte, off int64) (n int, err error)
}

// WriteDirect is f.WriteAt for bytes that are synced soon and not read. Where the system
// can it hands them to the disk without a copy in its cache, which costs less of the
// processor's time and of memory; elsewhere it is the same. It doesn't make them
// durable, nor does it change what a Datasync promises. p is of a DirectBuffer, and p,
// its length and off are multiples of DirectBlock.
func WriteDirect(f File, p []byte, off int64) (n int, err error) {
	if w, ok := f.(directWriter); ok {
		return w.WriteDirect(p, off)
	}
	return f.WriteAt(p, off)
}
