package errfs

import (
	"fmt"
	"math"
	"path"
	"runtime"
	"strings"

	"github.com/chronik-io/chronik/internal/vfs"
)

// A latch enforces what I5 says of a file: after a failed write or sync it is not synced before the
// bytes that may be lost were cut off or written again, from their begin on. The kernel drops the
// pages that it could not write and reports that once, so that a second sync succeeds without them.
// FS has a latch for each file, by its content, not by its name: a file that is closed, opened
// again or renamed has the same one. A sync against the rule panics, if the failure is known to its
// caller: it has met it, or opened the file later. Another goroutine may begin before it hears.
//
// FS.mu guards the fields.
type latch struct {
	dirty int64  // begin of the bytes that no successful sync covers; none if there are no such bytes
	lost  int64  // begin of those that a failed call may have lost; none if there are none
	cause string // the call that failed
	by    string // the goroutine of that call
	fails int    // calls that failed
	open  int    // handles
}

const none = math.MaxInt64

func newLatch() *latch { return &latch{dirty: none, lost: none} }

// fail notes that bytes from off on may never reach the disk.
func (l *latch) fail(c Call, off int64, err error) {
	if off < l.lost {
		l.lost, l.cause = off, fmt.Sprintf("%s of %s: %v", c.Op, c.Path, err)
	}
	l.by, l.fails = goroutine(), l.fails+1
}

// goroutine returns the name of the calling goroutine.
func goroutine() string {
	var buf [40]byte
	name, _, _ := strings.Cut(string(buf[:runtime.Stack(buf[:], false)]), " [")
	return name
}

// check panics if bytes of a file of that size may be lost, and the caller must know of the
// failure: it has met it, or opened the file afterwards. The caller must hold FS.mu.
func (h *file) check(c Call, size int64) {
	l := h.latch
	if l.lost < size && !h.fs.unlatched && (h.before == l.fails || l.by == goroutine()) {
		panic(fmt.Sprintf("errfs: I5: %s of %s, but bytes from %d on may be lost: %s", c.Op, c.Path, l.lost, l.cause))
	}
}

// latched runs change with the lock that guards latches.
func (f *FS) latched(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// opened sets the latch of a file that was opened. One that is not known yet has bytes that are
// not synced if the wrapped file says so; crashfs does. Those that another process could not sync
// are among them, and a sync of this one may cover them: which bytes it trusts is unknown.
func (f *FS) opened(name string, h vfs.File) *file {
	x := &file{fs: f, under: h}
	found := newLatch()
	if d, ok := h.(interface{ Unsynced() int64 }); ok {
		if size, err := h.Size(); err == nil && d.Unsynced() < size {
			found.dirty = d.Unsynced()
		}
	}
	f.latched(func() {
		name = path.Clean(name)
		if x.latch = f.latches[name]; x.latch == nil {
			x.latch = found
			f.latches[name] = found
		}
		x.latch.open++
		x.before = x.latch.fails
	})
	return x
}

// closed notes that a handle was closed, and reports whether it was the last one.
func (h *file) closed() (last bool) {
	h.fs.latched(func() {
		h.latch.open--
		last = h.latch.open == 0
	})
	return last
}

// renamed moves the latches of a file, or of all files of a directory.
func (f *FS) renamed(from, to string) {
	f.latched(func() {
		from, to = path.Clean(from), path.Clean(to)
		if l := f.latches[from]; l != nil { // a file
			f.latches[to] = l
			delete(f.latches, from)
			return
		}
		moved := make(map[string]*latch)
		for name, l := range f.latches {
			if rest, within := strings.CutPrefix(name, from); within && (rest == "" || rest[0] == '/') {
				moved[to+rest] = l
				delete(f.latches, name)
			}
		}
		f.forget(to)
		for name, l := range moved {
			f.latches[name] = l
		}
	})
}

// forget drops the latches of a file, or of all files of a directory: these names are free. The
// caller must hold f.mu.
func (f *FS) forget(name string) {
	name = path.Clean(name)
	if f.latches[name] != nil { // a file, so no directory
		delete(f.latches, name)
		return
	}
	for of := range f.latches {
		if of == name || strings.HasPrefix(of, name+"/") {
			delete(f.latches, of)
		}
	}
}

// writing notes that a write begins. It may write again what was lost.
func (h *file) writing(c Call) {
	h.fs.latched(func() {
		h.latch.dirty = min(h.latch.dirty, c.Off)
	})
}

// written notes how a write of n bytes ended; err is the fault, nil if there was none.
func (h *file) written(c Call, n int, err error) {
	h.fs.latched(func() {
		if end := c.Off + int64(n); c.Off <= h.latch.lost && h.latch.lost < end {
			h.latch.lost = end
			if size, sizeErr := h.under.Size(); sizeErr == nil && size <= end {
				h.latch.lost = none
			}
		}
		if err != nil {
			h.latch.fail(c, c.Off+int64(n), err)
		}
	})
}

// syncing returns the function that notes that the sync that begins now failed. What is written
// meanwhile is for the next one.
func (h *file) syncing(c Call) (failed func(error)) {
	size, err := h.under.Size()
	var from int64
	h.fs.latched(func() {
		if err == nil && c.Op == Datasync {
			h.check(c, size)
		}
		from = h.latch.dirty
		if c.Op == Datasync {
			h.latch.dirty = none
		}
	})
	return func(err error) {
		h.fs.latched(func() { h.latch.fail(c, from, err) })
	}
}

// resized notes that the file has another size, which is to be synced.
func (h *file) resized(was, size int64) {
	h.fs.latched(func() {
		if size <= h.latch.lost {
			h.latch.lost = none
		}
		if was != size {
			h.latch.dirty = min(h.latch.dirty, was, size)
		}
	})
}
