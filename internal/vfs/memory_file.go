package vfs

import (
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/vfs/ram"
)

// memFile is an open file of Memory. Its content stays readable while the file is open, even after
// it was removed.
type memFile struct {
	fs     *memFS
	name   string
	node   *memNode
	closed atomic.Bool
}

// check must be called first by every method; at and n are the position and length of the call.
func (f *memFile) check(op string, at, n int64) error {
	if f.closed.Load() {
		return ram.PathError(op, f.name, fs.ErrClosed)
	}
	if at < 0 || n < 0 {
		return ram.PathError(op, f.name, syscall.EINVAL)
	}
	return nil
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) Named() (bool, error) {
	if err := f.check("stat", 0, 0); err != nil {
		return false, err
	}
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	node, err := f.fs.root.Find(f.name)
	return err == nil && node.Data == f.node, nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check("read", off, 0); err != nil {
		return 0, err
	}
	f.node.mu.RLock()
	defer f.node.mu.RUnlock()
	n := f.node.data.ReadAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	return f.WriteVecAt([][]byte{p}, off)
}

func (f *memFile) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	if err := f.check("write", off, 0); err != nil {
		return 0, err
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	n := 0
	for _, p := range bufs {
		f.node.data.WriteAt(p, off+int64(n))
		n += len(p)
	}
	f.node.modified = time.Now()
	return n, nil
}

func (f *memFile) Datasync() error { return f.check("fdatasync", 0, 0) }

func (f *memFile) Allocate(off, n int64) error {
	if err := f.check("fallocate", off, n-1); err != nil {
		return err
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	if off+n > f.node.data.Size() {
		f.node.data.Resize(off + n)
		f.node.modified = time.Now()
	}
	return nil
}

func (f *memFile) Truncate(size int64) error {
	if err := f.check("truncate", size, 0); err != nil {
		return err
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	f.node.data.Resize(size)
	f.node.modified = time.Now()
	return nil
}

func (f *memFile) Size() (int64, error) {
	if err := f.check("stat", 0, 0); err != nil {
		return 0, err
	}
	f.node.mu.RLock()
	defer f.node.mu.RUnlock()
	return f.node.data.Size(), nil
}

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return ram.PathError("close", f.name, fs.ErrClosed)
	}
	return nil
}
