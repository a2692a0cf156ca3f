package main

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// disk is the state that all files share.
type disk struct {
	power sync.RWMutex // held by each call; with Lock, the power changes
	off   bool
}

// on begins a call. If the power is on, the caller must call done.
func (d *disk) on() (done func(), errno syscall.Errno) {
	d.power.RLock()
	if d.off {
		d.power.RUnlock()
		return nil, syscall.EIO
	}
	return d.power.RUnlock, fs.OK
}

func (d *disk) cut() {
	d.power.Lock()
	defer d.power.Unlock()
	d.off = true
}

// writeBack makes what all files have now durable.
func (d *disk) writeBack(root *dir) {
	d.power.Lock()
	defer d.power.Unlock()
	each(root, (*file).persist)
}

// restore gives every file its durable bytes, and the power is back. It returns how many files had
// others, and how many bytes no sync had covered.
func (d *disk) restore(root *dir) (files, bytes int) {
	d.power.Lock()
	defer d.power.Unlock()
	each(root, func(f *file) {
		if lost, differs := f.lose(); differs {
			files++
			bytes += lost
		}
	})
	d.off = false
	return files, bytes
}

// each calls do with each file below a directory.
func each(root fs.InodeEmbedder, do func(*file)) {
	for _, child := range root.EmbeddedInode().Children() {
		if f, ok := child.Operations().(*file); ok {
			do(f)
			continue
		}
		each(child.Operations(), do)
	}
}

func (d *disk) newDir() *dir   { return &dir{disk: d} }
func (d *disk) newFile() *file { return &file{disk: d, modified: time.Now()} }

// dir is a directory. What is in it is durable at once.
type dir struct {
	fs.Inode

	disk *disk
}

var (
	_ fs.NodeCreater   = (*dir)(nil)
	_ fs.NodeMkdirer   = (*dir)(nil)
	_ fs.NodeUnlinker  = (*dir)(nil)
	_ fs.NodeRmdirer   = (*dir)(nil)
	_ fs.NodeRenamer   = (*dir)(nil)
	_ fs.NodeFsyncer   = (*dir)(nil)
	_ fs.NodeStatfser  = (*dir)(nil)
	_ fs.NodeSetattrer = (*dir)(nil)
)

func (n *dir) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	done, errno := n.disk.on()
	if errno != fs.OK {
		return nil, nil, 0, errno
	}
	defer done()
	f := n.disk.newFile()
	child := n.NewPersistentInode(ctx, f, fs.StableAttr{Mode: syscall.S_IFREG})
	n.AddChild(name, child, true)
	f.attr(&out.Attr)
	return child, nil, 0, fs.OK
}

func (n *dir) Mkdir(ctx context.Context, name string, _ uint32, _ *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	done, errno := n.disk.on()
	if errno != fs.OK {
		return nil, errno
	}
	defer done()
	return n.NewPersistentInode(ctx, n.disk.newDir(), fs.StableAttr{Mode: syscall.S_IFDIR}), fs.OK
}

func (n *dir) Unlink(context.Context, string) syscall.Errno { return n.names() }

func (n *dir) Rmdir(_ context.Context, name string) syscall.Errno {
	if child := n.GetChild(name); child != nil && len(child.Children()) > 0 {
		return syscall.ENOTEMPTY
	}
	return n.names()
}

func (n *dir) Rename(_ context.Context, _ string, _ fs.InodeEmbedder, _ string, _ uint32) syscall.Errno {
	return n.names()
}

// names lets the library change names.
func (n *dir) names() syscall.Errno {
	done, errno := n.disk.on()
	if errno == fs.OK {
		done()
	}
	return errno
}

func (n *dir) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return n.names() }

func (n *dir) Setattr(_ context.Context, _ fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	out.Mode = 0o755
	return fs.OK
}

// Statfs reports a disk with 16 GiB of 64 free: some brokers refuse to write to a small one.
func (n *dir) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	const blocks = 1 << 30 / 4096
	out.Bsize, out.Frsize, out.Blocks, out.Bfree, out.Bavail, out.NameLen = 4096, 4096, 64*blocks, 16*blocks, 16*blocks, 255
	return fs.OK
}

// span is a range of bytes, without to.
type span struct{ from, to int }

// file is a file: what reads return, and what the last sync covered.
type file struct {
	fs.Inode

	disk *disk

	mu       sync.Mutex
	now      []byte
	synced   []byte
	dirty    []span // written since the last sync
	modified time.Time
}

var (
	_ fs.NodeGetattrer = (*file)(nil)
	_ fs.NodeSetattrer = (*file)(nil)
	_ fs.NodeOpener    = (*file)(nil)
	_ fs.NodeReader    = (*file)(nil)
	_ fs.NodeWriter    = (*file)(nil)
	_ fs.NodeFsyncer   = (*file)(nil)
	_ fs.NodeFlusher   = (*file)(nil)
	_ fs.NodeAllocater = (*file)(nil)
)

// begin begins a call on the file.
func (f *file) begin() (end func(), errno syscall.Errno) {
	done, errno := f.disk.on()
	if errno != fs.OK {
		return nil, errno
	}
	f.mu.Lock()
	return func() { f.mu.Unlock(); done() }, fs.OK
}

func (f *file) attr(out *fuse.Attr) {
	out.Mode, out.Size, out.Blksize = syscall.S_IFREG|0o644, uint64(len(f.now)), 4096
	out.Blocks = (out.Size + 511) / 512
	out.SetTimes(nil, &f.modified, &f.modified)
}

func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	end, errno := f.begin()
	if errno != fs.OK {
		return errno
	}
	defer end()
	f.attr(&out.Attr)
	return fs.OK
}

func (f *file) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	end, errno := f.begin()
	if errno != fs.OK {
		return errno
	}
	defer end()
	if size, ok := in.GetSize(); ok {
		f.resize(int(size))
	}
	f.attr(&out.Attr)
	return fs.OK
}

// resize cuts the file or appends zeros.
func (f *file) resize(size int) {
	if size <= len(f.now) {
		f.now = f.now[:size]
		return
	}
	f.dirty = append(f.dirty, span{len(f.now), size})
	f.grow(size)
}

// grow appends zeros, which the array behind may not be: it keeps what a cut has left.
func (f *file) grow(size int) {
	old := len(f.now)
	f.now = slices.Grow(f.now, size-old)[:size]
	clear(f.now[old:])
}

func (f *file) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	done, errno := f.disk.on()
	if errno == fs.OK {
		done()
	}
	return nil, 0, errno
}

func (f *file) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	end, errno := f.begin()
	if errno != fs.OK {
		return nil, errno
	}
	defer end()
	from := min(int(off), len(f.now))
	return fuse.ReadResultData(dest[:copy(dest, f.now[from:])]), fs.OK
}

func (f *file) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	end, errno := f.begin()
	if errno != fs.OK {
		return 0, errno
	}
	defer end()
	from, to := int(off), int(off)+len(data)
	if to > len(f.now) {
		f.dirty = append(f.dirty, span{min(from, len(f.now)), to})
		f.grow(to)
	} else {
		f.dirty = append(f.dirty, span{from, to})
	}
	copy(f.now[from:], data)
	f.modified = time.Now()
	return uint32(len(data)), fs.OK
}

func (f *file) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	end, errno := f.begin()
	if errno != fs.OK {
		return errno
	}
	defer end()
	f.persist()
	return fs.OK
}

// persist makes what the file has now durable. The caller holds mu, or power alone.
func (f *file) persist() {
	if n := len(f.now); n <= len(f.synced) {
		f.synced = f.synced[:n]
	} else {
		old := len(f.synced)
		f.synced = slices.Grow(f.synced, n-old)[:n]
		copy(f.synced[old:], f.now[old:])
	}
	for _, s := range f.dirty {
		if to := min(s.to, len(f.now)); s.from < to {
			copy(f.synced[s.from:to], f.now[s.from:to])
		}
	}
	f.dirty = nil
}

// lose gives the file the bytes of the last sync. It returns how many later ones are lost, and
// whether the file differed. The caller holds power.
func (f *file) lose() (lost int, differs bool) {
	for _, s := range f.dirty {
		lost += s.to - s.from
	}
	differs = lost > 0 || len(f.now) != len(f.synced)
	f.now, f.dirty = slices.Clone(f.synced), nil
	return lost, differs
}

// Flush is called by close, which makes nothing durable.
func (f *file) Flush(context.Context, fs.FileHandle) syscall.Errno { return fs.OK }

func (f *file) Allocate(_ context.Context, _ fs.FileHandle, off, size uint64, mode uint32) syscall.Errno {
	end, errno := f.begin()
	if errno != fs.OK {
		return errno
	}
	defer end()
	const keepSize = 1
	switch {
	case mode == keepSize:
	case mode != 0:
		return syscall.EOPNOTSUPP
	case int(off+size) > len(f.now):
		f.resize(int(off + size))
	}
	return fs.OK
}
