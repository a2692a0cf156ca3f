package system

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/chronik-io/chronik/internal/vfs"
)

// sector is what a disk writes as a whole or not at all, in bytes.
const sector = 512

// lossyDisk is the system's file system, except that powerLoss takes back writes and names that
// were not synced. It keeps in memory what they replaced. A truncation is durable at once, with all
// that was written to the file before it.
type lossyDisk struct {
	vfs.FS
	boot  [16]byte
	trash string // has what was removed and is not durably removed yet

	power sync.RWMutex // held for writing from the power loss on
	mu    sync.Mutex   // guards the rest
	rand  *rand.Rand
	files map[uint64]*lossyContent // by inode
	names []nameChange
	count int // changes of names so far
	kept  int // files that have been in trash
}

// nameChange is a change of names that no SyncDir has covered.
type nameChange struct {
	number int
	dirs   []string
	undo   func() error
	keep   func() error // called when it is durable, may be nil
}

// lossyContent is the content of a file with a handle, or with writes that are not synced.
type lossyContent struct {
	file  *os.File // also keeps the inode from being used again
	disk  *lossyDisk
	inode uint64

	writes  sync.RWMutex // held for reading by writes, for writing when a sync begins
	mu      sync.Mutex   // guards the rest
	handles int
	size    int64    // bytes that are durable
	undone  []*layer // in the order of the syncs that would cover them; the last one is written to
}

// layer has the sectors that were written between two syncs, as they were before.
type layer struct{ before map[int64][sector]byte }

func newLossyDisk(trash string, seed uint64) (*lossyDisk, error) {
	d := &lossyDisk{FS: vfs.OS(), trash: trash, rand: rand.New(rand.NewPCG(seed, 2)), files: map[uint64]*lossyContent{}}
	for i := range d.boot {
		d.boot[i] = byte(rand.Uint32())
	}
	return d, errors.Join(os.RemoveAll(trash), os.MkdirAll(trash, 0o700))
}

func (d *lossyDisk) BootID() [16]byte { return d.boot }

// powerLoss takes back a random part of the writes that were not synced, and the latest changes of
// names. No call returns afterwards.
func (d *lossyDisk) powerLoss() error {
	d.power.Lock()
	d.mu.Lock()
	var failed []error
	for _, inode := range slices.Sorted(maps.Keys(d.files)) {
		failed = append(failed, d.files[inode].revert(d.rand))
	}
	for keep := d.rand.IntN(len(d.names) + 1); len(d.names) > keep; d.names = d.names[:len(d.names)-1] {
		if err := d.names[len(d.names)-1].undo(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// revert takes back sectors, and what the file has grown.
func (c *lossyContent) revert(rnd *rand.Rand) error {
	now, err := c.file.Stat()
	if err != nil {
		return err
	}
	likely := rnd.Float64()
	for _, l := range slices.Backward(c.undone) {
		for _, at := range slices.Sorted(maps.Keys(l.before)) {
			if rnd.Float64() < likely {
				continue
			}
			old := l.before[at]
			if _, err := c.file.WriteAt(old[:min(sector, max(0, now.Size()-at))], at); err != nil {
				return err
			}
		}
	}
	if now.Size() > c.size && rnd.IntN(2) == 0 {
		return c.file.Truncate(c.size)
	}
	return nil
}

// changed runs a change of names and remembers how to undo it.
func (d *lossyDisk) changed(do func() (nameChange, error)) error {
	d.power.RLock()
	defer d.power.RUnlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := do()
	if err == nil && c.undo != nil {
		d.count++
		c.number = d.count
		d.names = append(d.names, c)
	}
	return err
}

// hidden returns an unused name in trash.
func (d *lossyDisk) hidden() string {
	d.kept++
	return filepath.Join(d.trash, fmt.Sprint(d.kept))
}

// vanishes undoes the creation of a name.
func (d *lossyDisk) vanishes(name string) nameChange {
	to := d.hidden()
	return nameChange{dirs: []string{filepath.Dir(name)}, undo: func() error { return os.Rename(name, to) }}
}

func (d *lossyDisk) Create(name string) (f vfs.File, err error) {
	err = d.changed(func() (nameChange, error) {
		if f, err = d.FS.Create(name); err != nil {
			return nameChange{}, err
		}
		f, err = d.opened(f, 0)
		return d.vanishes(name), err
	})
	return f, err
}

func (d *lossyDisk) Open(name string) (f vfs.File, err error) {
	err = d.changed(func() (nameChange, error) {
		if f, err = d.FS.Open(name); err != nil {
			return nameChange{}, err
		}
		size, err := f.Size()
		if err != nil {
			return nameChange{}, errors.Join(err, f.Close())
		}
		f, err = d.opened(f, size)
		return nameChange{}, err
	})
	return f, err
}

// opened returns a handle of a file whose content is durable unless it is known already.
func (d *lossyDisk) opened(f vfs.File, size int64) (vfs.File, error) {
	own, err := os.OpenFile(f.Name(), os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	info, err := own.Stat()
	if err != nil {
		return nil, errors.Join(err, own.Close(), f.Close())
	}
	inode := info.Sys().(*syscall.Stat_t).Ino
	c := d.files[inode]
	if c == nil {
		c = &lossyContent{file: own, disk: d, inode: inode, size: size, undone: []*layer{{map[int64][sector]byte{}}}}
		d.files[inode] = c
	} else if err := own.Close(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.mu.Lock()
	c.handles++
	c.mu.Unlock()
	return &lossyFile{File: f, content: c}, nil
}

func (d *lossyDisk) MkdirAll(name string) error {
	missing := filepath.Clean(name)
	for {
		if _, err := os.Stat(filepath.Dir(missing)); err == nil || filepath.Dir(missing) == missing {
			break
		}
		missing = filepath.Dir(missing)
	}
	return d.changed(func() (nameChange, error) {
		if _, err := os.Stat(missing); err == nil {
			return nameChange{}, d.FS.MkdirAll(name)
		}
		return d.vanishes(missing), d.FS.MkdirAll(name)
	})
}

func (d *lossyDisk) Remove(name string) error {
	info, err := os.Lstat(name)
	if err != nil || info.IsDir() {
		return d.FS.Remove(name) // a directory that is empty: durable at once
	}
	return d.RemoveAll(name)
}

func (d *lossyDisk) RemoveAll(name string) error {
	return d.changed(func() (nameChange, error) {
		to := d.hidden()
		if err := os.Rename(name, to); err != nil {
			return nameChange{}, d.FS.RemoveAll(name) // there is nothing, or it says what is wrong
		}
		return nameChange{dirs: []string{filepath.Dir(name)}, undo: func() error { return os.Rename(to, name) },
			keep: func() error { return os.RemoveAll(to) }}, nil
	})
}

func (d *lossyDisk) Rename(oldName, newName string) error {
	return d.changed(func() (nameChange, error) {
		c := nameChange{dirs: []string{filepath.Dir(oldName), filepath.Dir(newName)}}
		c.undo = func() error { return os.Rename(newName, oldName) }
		if info, err := os.Lstat(newName); err == nil && !info.IsDir() {
			replaced := d.hidden()
			if err := os.Link(newName, replaced); err != nil {
				return c, err
			}
			c.undo = func() error { return errors.Join(os.Rename(newName, oldName), os.Rename(replaced, newName)) }
			c.keep = func() error { return os.Remove(replaced) }
		}
		return c, d.FS.Rename(oldName, newName)
	})
}

// SyncDir makes durable what the directory's names were before the call. A rename is durable as a
// whole.
func (d *lossyDisk) SyncDir(dir string) error {
	d.mu.Lock()
	latest := d.count
	d.mu.Unlock()
	if err := d.FS.SyncDir(dir); err != nil {
		return err
	}
	d.power.RLock()
	defer d.power.RUnlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	var kept []error
	left := d.names[:0:0]
	for _, c := range d.names {
		if c.number > latest || !slices.Contains(c.dirs, filepath.Clean(dir)) {
			left = append(left, c)
		} else if c.keep != nil {
			kept = append(kept, c.keep())
		}
	}
	d.names = left
	return errors.Join(kept...)
}

// lossyFile is a handle. It has none of the methods beyond vfs.File, so every write comes through
// here.
type lossyFile struct {
	vfs.File
	content *lossyContent
	closed  bool
}

// saved runs a write after it has kept the sectors that the write may change.
func (f *lossyFile) saved(off, n int64, write func() error) error {
	c := f.content
	c.disk.power.RLock()
	defer c.disk.power.RUnlock()
	c.writes.RLock()
	defer c.writes.RUnlock()
	if off >= 0 {
		if err := c.save(off, n); err != nil {
			return err
		}
	}
	return write()
}

func (c *lossyContent) save(off, n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.undone[len(c.undone)-1]
	for at := off - off%sector; at < off+n; at += sector {
		if _, ok := l.before[at]; ok {
			continue
		}
		var old [sector]byte
		if _, err := c.file.ReadAt(old[:], at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		l.before[at] = old
	}
	return nil
}

// ReadAt does not show what a power loss has left: the next process reads that.
func (f *lossyFile) ReadAt(p []byte, off int64) (n int, err error) {
	f.content.disk.power.RLock()
	defer f.content.disk.power.RUnlock()
	return f.File.ReadAt(p, off)
}

func (f *lossyFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.saved(off, int64(len(p)), func() error {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *lossyFile) WriteVecAt(bufs [][]byte, off int64) (n int, err error) {
	size := 0
	for _, p := range bufs {
		size += len(p)
	}
	err = f.saved(off, int64(size), func() error {
		n, err = f.File.WriteVecAt(bufs, off)
		return err
	})
	return n, err
}

func (f *lossyFile) Allocate(off, n int64) error {
	return f.saved(0, 0, func() error { return f.File.Allocate(off, n) })
}

func (f *lossyFile) Truncate(size int64) error {
	c := f.content
	c.disk.power.RLock()
	defer c.disk.power.RUnlock()
	c.writes.Lock()
	defer c.writes.Unlock()
	if err := f.File.Truncate(size); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size, c.undone = size, []*layer{{map[int64][sector]byte{}}}
	return nil
}

func (f *lossyFile) Datasync() error {
	c := f.content
	c.writes.Lock()
	c.mu.Lock()
	last := c.undone[len(c.undone)-1]
	c.undone = append(c.undone, &layer{map[int64][sector]byte{}})
	c.mu.Unlock()
	size, err := f.File.Size()
	c.writes.Unlock()
	if err != nil {
		return err
	}
	if err := f.File.Datasync(); err != nil {
		return err
	}
	c.disk.power.RLock()
	defer c.disk.power.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.undone, last); i >= 0 {
		c.undone, c.size = c.undone[i+1:], size
	}
	return nil
}

// Close forgets the content if all of it is durable and nothing else has it open.
func (f *lossyFile) Close() error {
	if f.closed {
		return f.File.Close()
	}
	f.closed = true
	c := f.content
	c.disk.mu.Lock()
	defer c.disk.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handles--
	dirty := slices.ContainsFunc(c.undone, func(l *layer) bool { return len(l.before) > 0 })
	if c.handles > 0 || dirty {
		return f.File.Close()
	}
	delete(c.disk.files, c.inode)
	return errors.Join(c.file.Close(), f.File.Close())
}
