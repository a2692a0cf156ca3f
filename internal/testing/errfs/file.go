package errfs

import (
	"github.com/chronik-io/chronik/internal/vfs"
)

// file is an open file that can fail.
type file struct {
	fs    *FS
	under vfs.File
	latch *latch
	// before is how many calls for the file had failed when it was opened.
	before int
}

// dropper is a file that can drop dirty pages, as those of crashfs can.
type dropper interface{ DropDirty(keepCached bool) }

// Name implements vfs.File.
func (h *file) Name() string { return h.under.Name() }

// Named implements vfs.File. It counts as a Stat.
func (h *file) Named() (bool, error) {
	if err := h.fs.fails(Call{Op: Stat, Path: h.Name()}); err != nil {
		return false, err
	}
	return h.under.Named()
}

// ReadAt implements vfs.File.
func (h *file) ReadAt(p []byte, off int64) (int, error) {
	c := Call{Op: Read, Path: h.Name(), Off: off, Len: int64(len(p))}
	r := h.fs.enter(c)
	if r == nil {
		return h.under.ReadAt(p, off)
	}
	if r.Short <= 0 {
		return 0, failed(c, r.Err)
	}
	n, err := h.under.ReadAt(p[:min(r.Short, len(p))], off)
	if err == nil {
		err = failed(c, r.Err)
	}
	return n, err
}

// WriteAt implements vfs.File.
func (h *file) WriteAt(p []byte, off int64) (int, error) {
	return h.WriteVecAt([][]byte{p}, off)
}

// WriteVecAt implements vfs.File.
func (h *file) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	c := Call{Op: Write, Path: h.Name(), Off: off}
	for _, p := range bufs {
		c.Len += int64(len(p))
	}
	r := h.fs.enter(c)
	if r == nil {
		return h.write(c, bufs)
	}
	n, err := 0, error(nil)
	if short := min(max(int64(r.Short), 0), c.Len); short > 0 {
		c.Len = short
		n, err = h.write(c, cut(bufs, int(short)))
	}
	if err == nil {
		err = failed(c, r.Err)
	}
	h.written(c, n, err)
	return n, err
}

// write writes as much of bufs, c.Len bytes in all, as the quota allows.
func (h *file) write(c Call, bufs [][]byte) (int, error) {
	if c.Len == 0 || c.Off < 0 {
		return h.under.WriteVecAt(bufs, c.Off)
	}
	h.writing(c)
	space, err := h.fs.full.reserve(h, c.Off+c.Len)
	if err != nil {
		return 0, err
	}
	defer space.done()
	if space.full == nil {
		n, err := h.under.WriteVecAt(bufs, c.Off)
		h.written(c, n, nil)
		return n, err
	}
	n := 0
	if fits := space.end - c.Off; fits > 0 {
		if n, err = h.under.WriteVecAt(cut(bufs, int(fits)), c.Off); err != nil {
			return n, err
		}
	}
	err = failed(c, space.full)
	h.written(c, n, err)
	return n, err
}

// StartWriteback is that of the wrapped file. It returns no error, so no rule fails it.
func (h *file) StartWriteback(off, n int64) { vfs.StartWriteback(h.under, off, n) }

// Writeback is that of the wrapped file.
func (h *file) Writeback(off, n int64) error {
	return h.sync(Call{Op: Writeback, Path: h.Name(), Off: off, Len: n}, func() error { return vfs.Writeback(h.under, off, n) })
}

// Datasync implements vfs.File.
func (h *file) Datasync() error { return h.sync(Call{Op: Datasync, Path: h.Name()}, h.under.Datasync) }

// sync makes a call that writes dirty pages.
func (h *file) sync(c Call, call func() error) error {
	failedToSync := h.syncing(c)
	r := h.fs.enter(c)
	if r == nil {
		return call()
	}
	h.drop(r.Drop)
	err := failed(c, r.Err)
	failedToSync(err)
	return err
}

// Allocate implements vfs.File.
func (h *file) Allocate(off, n int64) error {
	c := Call{Op: Allocate, Path: h.Name(), Off: off, Len: n}
	if err := h.fs.fails(c); err != nil {
		return err
	}
	return h.resize(func() error { return h.grow(c, off+n, func() error { return h.under.Allocate(off, n) }) })
}

// Truncate implements vfs.File.
func (h *file) Truncate(size int64) error {
	c := Call{Op: Truncate, Path: h.Name(), Off: size}
	if err := h.fs.fails(c); err != nil {
		return err
	}
	return h.resize(func() error { return h.grow(c, size, func() error { return h.under.Truncate(size) }) })
}

// resize makes a call that may change the file's size.
func (h *file) resize(call func() error) error {
	was, err := h.under.Size()
	if err != nil {
		return call()
	}
	if err := call(); err != nil {
		return err
	}
	if size, err := h.under.Size(); err == nil {
		h.resized(was, size)
	}
	return nil
}

// grow makes a call that extends the file to end, entirely or not at all.
func (h *file) grow(c Call, end int64, call func() error) error {
	space, err := h.fs.full.reserve(h, end)
	if err != nil {
		return err
	}
	defer space.done()
	if space.full != nil {
		return failed(c, space.full)
	}
	return call()
}

// Size implements vfs.File.
func (h *file) Size() (int64, error) {
	if err := h.fs.fails(Call{Op: Size, Path: h.Name()}); err != nil {
		return 0, err
	}
	return h.under.Size()
}

// Close implements vfs.File. It closes the file even if a rule fails it, as a kernel does. With the
// last handle the dirty pages go (DropCached): their write-back may fail when no process has the
// file open, which the kernel reports to none.
func (h *file) Close() error {
	fault := h.fs.fails(Call{Op: Close, Path: h.Name()})
	if h.closed() {
		h.drop(DropCached)
	}
	if err := h.under.Close(); err != nil {
		return err
	}
	return fault
}

// drop has its effect on the file's dirty pages.
func (h *file) drop(how Drop) {
	if d, ok := h.under.(dropper); ok && how != KeepDirty {
		d.DropDirty(how == DropCached)
	}
}
