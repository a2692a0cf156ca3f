package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/vfs/ram"
)

// memorySize is the size that Free reports, that of a disk that never fills up.
const memorySize = 1 << 40

// Memory returns an empty file system that exists only in memory. It behaves like OS, with two
// differences: relative names start at its root, and Free always reports an empty terabyte. Zero
// bytes use no memory.
func Memory() FS {
	return &memFS{root: ram.NewDir(&memNode{}), locks: map[*memDir]string{}}
}

type memDir = ram.Node[*memNode]

// memFS guards the tree and the locks by mu. A file's content has its own lock, which is taken
// after mu or without it.
type memFS struct {
	mu    sync.RWMutex
	root  *memDir
	locks map[*memDir]string // held locks and the holders' texts
}

// memNode is the content of a file; that of a directory stays empty.
type memNode struct {
	mu       sync.RWMutex
	data     ram.Bytes
	modified time.Time
}

func (m *memFS) Open(name string) (File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node, err := m.root.Find(name)
	if err == nil && node.IsDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, ram.PathError("open", name, err)
	}
	return &memFile{fs: m, name: name, node: node.Data}, nil
}

func (m *memFS) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slot, err := m.root.ForCreate(name)
	if err != nil {
		return nil, ram.PathError("create", name, err)
	}
	node := ram.NewFile(&memNode{modified: time.Now()})
	slot.Dir.Entries[slot.Name] = node
	return &memFile{fs: m, name: name, node: node.Data}, nil
}

func (m *memFS) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	missing, err := m.root.Missing(name)
	if err != nil {
		return ram.PathError("mkdir", name, err)
	}
	for _, dir := range missing {
		slot, err := m.root.Slot(dir)
		if err != nil {
			return ram.PathError("mkdir", dir, err)
		}
		slot.Dir.Entries[slot.Name] = ram.NewDir(&memNode{})
	}
	return nil
}

func (m *memFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	slot, err := m.root.ForRemove(name)
	if err != nil {
		return ram.PathError("remove", name, err)
	}
	delete(slot.Dir.Entries, slot.Name)
	return nil
}

func (m *memFS) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.root.Find(name); ram.IsMissing(err) {
		return nil // there is nothing to remove
	}
	slot, err := m.root.Slot(name)
	if err != nil {
		return ram.PathError("remove", name, err)
	}
	delete(slot.Dir.Entries, slot.Name)
	return nil
}

func (m *memFS) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, to, err := m.root.ForRename(oldName, newName)
	if err != nil {
		return fmt.Errorf("rename %s to %s: %w", oldName, newName, err)
	}
	node := from.Node()
	delete(from.Dir.Entries, from.Name)
	to.Dir.Entries[to.Name] = node
	return nil
}

func (m *memFS) List(dir string) ([]Info, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node, err := m.root.FindDir(dir)
	if err != nil {
		return nil, ram.PathError("list", dir, err)
	}
	list := make([]Info, 0, len(node.Entries))
	for _, name := range node.Names() {
		list = append(list, memInfo(name, node.Entries[name]))
	}
	return list, nil
}

func (m *memFS) Stat(name string) (Info, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node, err := m.root.Find(name)
	if err != nil {
		return Info{}, ram.PathError("stat", name, err)
	}
	return memInfo(path.Base(path.Clean(name)), node), nil
}

func (m *memFS) SetModified(name string, at time.Time) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node, err := m.root.Find(name)
	if err == nil && node.IsDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return ram.PathError("chtimes", name, err)
	}
	node.Data.mu.Lock()
	defer node.Data.mu.Unlock()
	node.Data.modified = at
	return nil
}

func memInfo(name string, node *memDir) Info {
	if node.IsDir() {
		return Info{Name: name, Dir: true}
	}
	node.Data.mu.RLock()
	defer node.Data.mu.RUnlock()
	return Info{Name: name, Size: node.Data.data.Size(), Modified: node.Data.modified}
}

func (m *memFS) SyncDir(dir string) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, err := m.root.FindDir(dir)
	return ram.PathError("fsync", dir, err)
}

func (m *memFS) Lock(name, holder string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slot, err := m.root.Slot(name)
	if err != nil {
		return nil, ram.PathError("lock", name, err)
	}
	node := slot.Node()
	switch {
	case node == nil:
		node = ram.NewFile(&memNode{})
		slot.Dir.Entries[slot.Name] = node
	case node.IsDir():
		return nil, ram.PathError("lock", name, syscall.EISDIR)
	}
	if other, held := m.locks[node]; held {
		return nil, locked(name, other)
	}
	m.locks[node] = holder
	node.Data.set([]byte(holder))
	return &memLock{fs: m, node: node}, nil
}

// set replaces the whole content.
func (n *memNode) set(p []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data.Resize(0)
	n.data.WriteAt(p, 0)
	n.modified = time.Now()
}

// memLock is a held lock.
type memLock struct {
	fs   *memFS
	node *memDir
	done bool
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.done {
		return fs.ErrClosed
	}
	l.done = true
	delete(l.fs.locks, l.node)
	return nil
}

func (m *memFS) Free(dir string) (available, total uint64, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.root.Find(dir); err != nil {
		return 0, 0, ram.PathError("statfs", dir, err)
	}
	return memorySize, memorySize, nil
}
