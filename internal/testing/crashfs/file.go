package crashfs

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/chronik-io/chronik/internal/vfs/ram"
)

// iovMax is the maximum number of buffers of one write call.
const iovMax = 1024

// file is an open file. It is unusable after its process died.
type file struct {
	fs     *FS
	name   string
	node   *node
	closed bool
}

// check must be called first by every method; at and n are the position and length of the call. The
// caller must hold the lock.
func (h *file) check(at, n int64) error {
	if err := h.fs.alive(); err != nil {
		return err
	}
	if h.closed {
		return fs.ErrClosed
	}
	if at < 0 || n < 0 {
		return syscall.EINVAL
	}
	return nil
}

// Name implements vfs.File.
func (h *file) Name() string { return h.name }

// Named implements vfs.File.
func (h *file) Named() (bool, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.check(0, 0); err != nil {
		return false, ram.PathError("stat", h.name, err)
	}
	n, err := h.fs.find(h.name)
	return err == nil && n == h.node, nil
}

// ReadAt implements vfs.File.
func (h *file) ReadAt(p []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.check(off, 0); err != nil {
		return 0, ram.PathError("read", h.name, err)
	}
	n := h.node.Data.cache.ReadAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Size implements vfs.File.
func (h *file) Size() (int64, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.check(0, 0); err != nil {
		return 0, ram.PathError("stat", h.name, err)
	}
	return h.node.Data.cache.Size(), nil
}

// WriteAt implements vfs.File.
func (h *file) WriteAt(p []byte, off int64) (int, error) {
	return h.WriteVecAt([][]byte{p}, off)
}

// WriteVecAt implements vfs.File. Each IOV_MAX buffers are a separate call, between which the
// process may die.
func (h *file) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.check(off, 0); err != nil {
		return 0, ram.PathError("write", h.name, err)
	}
	total := 0
	for len(bufs) > 0 {
		k := min(len(bufs), iovMax)
		// The copy outlives the call: it is in the log until the next sync.
		p := bytes.Join(bufs[:k], nil)
		if err := h.write(p, off+int64(total)); err != nil {
			return total, ram.PathError("write", h.name, err)
		}
		total += len(p)
		bufs = bufs[k:]
	}
	return total, nil
}

// write makes one write call with p, which it keeps. The caller must hold the lock.
func (h *file) write(p []byte, off int64) error {
	if len(p) == 0 {
		return nil
	}
	happens, err := h.fs.step("write", h.name, span{off, int64(len(p))})
	if happens {
		if err != nil {
			p = p[:h.fs.rng.IntN(len(p)+1)]
		}
		h.node.Data.change(change{kind: wrote, off: off, data: p})
	}
	return err
}

// span is a range of a file in a trace.
type span struct{ off, n int64 }

func (s span) String() string { return fmt.Sprintf("%d+%d", s.off, s.n) }

// resize makes one call that changes the size according to c. The caller must hold the lock.
func (h *file) resize(call string, c change, args ...any) error {
	happens, err := h.fs.step(call, args...)
	if happens {
		h.node.Data.change(c)
	}
	return err
}

// Truncate implements vfs.File.
func (h *file) Truncate(size int64) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.check(size, 0)
	if err == nil {
		err = h.resize("truncate", change{kind: truncated, size: size}, h.name, size)
	}
	return ram.PathError("truncate", h.name, err)
}

// Allocate implements vfs.File.
func (h *file) Allocate(off, n int64) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.check(off, n-1)
	if err == nil {
		err = h.resize("allocate", change{kind: extended, size: off + n}, h.name, span{off, n})
	}
	return ram.PathError("fallocate", h.name, err)
}

// Datasync implements vfs.File. It covers the writes before it began.
func (h *file) Datasync() error {
	h.fs.mu.Lock()
	err := h.check(0, 0)
	seq := h.node.Data.seq
	h.fs.mu.Unlock()
	if err == nil {
		h.fs.wait()
		err = h.datasync(seq)
	}
	return ram.PathError("fdatasync", h.name, err)
}

func (h *file) datasync(seq int64) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	happens, err := h.fs.step("datasync", h.name)
	if happens {
		h.node.Data.sync(seq)
	}
	if err == nil {
		h.fs.syncs++
	}
	return err
}

// Unsynced returns the offset of the first byte that a power loss may change; the file's size if
// there is none.
func (h *file) Unsynced() int64 {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return h.node.Data.unsynced()
}

// DropDirty simulates the effect of a failed Datasync on the pages that could not be written (errfs
// calls it): they count as clean, so the next Datasync succeeds without writing them. With
// keepCached they stay readable, even after Kill, until a power loss. Without it reads see the
// content of the disk at once, as if the pages had been evicted.
func (h *file) DropDirty(keepCached bool) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.fs.alive() == nil {
		h.node.Data.forget(keepCached)
	}
}

// Close implements vfs.File.
func (h *file) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.check(0, 0); err != nil {
		return ram.PathError("close", h.name, err)
	}
	h.closed = true
	return nil
}
