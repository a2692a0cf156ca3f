package crashfs

import (
	"fmt"
	"maps"
	"path"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/vfs/ram"
)

// names are the entries of all directories on disk. A node has at most one name: there are no hard
// links.
type names struct {
	dirs map[*node]map[string]*node
	at   map[*node]slot
}

func newNames() names {
	return names{dirs: map[*node]map[string]*node{}, at: map[*node]slot{}}
}

func (n names) clone() names {
	c := names{dirs: make(map[*node]map[string]*node, len(n.dirs)), at: maps.Clone(n.at)}
	for dir, entries := range n.dirs {
		c.dirs[dir] = maps.Clone(entries)
	}
	return c
}

// nameChange is one atomic change of names: if to has a directory, node becomes its entry; if from
// has a directory, its entry is removed. A rename has both.
type nameChange struct {
	node     *node
	from, to slot
}

// apply makes the change. Changes may be applied without earlier ones, so apply assumes nothing
// about existing entries.
func (n names) apply(c nameChange) {
	if c.from.Dir != nil {
		n.clear(c.from)
	}
	if c.to.Dir != nil {
		n.clear(c.to)
		if old, ok := n.at[c.node]; ok {
			n.clear(old)
		}
		if n.dirs[c.to.Dir] == nil {
			n.dirs[c.to.Dir] = map[string]*node{}
		}
		n.dirs[c.to.Dir][c.to.Name] = c.node
		n.at[c.node] = c.to
	}
}

func (n names) clear(s slot) {
	if old := n.dirs[s.Dir][s.Name]; old != nil {
		delete(n.dirs[s.Dir], s.Name)
		delete(n.at, old)
	}
}

// changed applies c to the tree that the process sees, and records it.
func (f *FS) changed(c nameChange) {
	if c.from.Dir != nil {
		delete(c.from.Dir.Entries, c.from.Name)
	}
	if c.to.Dir != nil {
		c.to.Dir.Entries[c.to.Name] = c.node
	}
	f.pending = append(f.pending, c)
}

// commit makes the pending changes in dir durable, and earlier changes elsewhere that they depend
// on: a file system journal commits a rename between two directories as one transaction, and never
// before earlier changes of the same name or file.
func (f *FS) commit(dir *node) {
	slots := map[slot]bool{} // the changes of a file form a chain of slots
	needed := make([]bool, len(f.pending))
	for i := len(f.pending) - 1; i >= 0; i-- {
		c := f.pending[i]
		if c.from.Dir == dir || c.to.Dir == dir || slots[c.from] || slots[c.to] {
			needed[i] = true
			for _, s := range []slot{c.from, c.to} {
				if s.Dir != nil {
					slots[s] = true
				}
			}
		}
	}
	var left []nameChange
	for i, c := range f.pending {
		if needed[i] {
			f.durable.apply(c)
		} else {
			left = append(left, c)
		}
	}
	f.pending = left
}

// Create implements vfs.FS.
func (f *FS) Create(name string) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.create(name)
	if err != nil {
		return nil, ram.PathError("create", name, err)
	}
	return &file{fs: f, name: name, node: n}, nil
}

func (f *FS) create(name string) (*node, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	to, err := f.root.ForCreate(name)
	if err != nil {
		return nil, err
	}
	n := ram.NewFile(newInode())
	happens, err := f.step("create", name)
	if happens {
		f.changed(nameChange{node: n, to: to})
	}
	return n, err
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.alive()
	if err != nil {
		return ram.PathError("mkdir", name, err)
	}
	missing, err := f.root.Missing(name)
	for _, dir := range missing {
		if err == nil {
			err = f.mkdir(dir)
		}
	}
	return ram.PathError("mkdir", name, err)
}

func (f *FS) mkdir(dir string) error {
	to, err := f.root.ForCreate(dir)
	if err != nil {
		return err
	}
	happens, err := f.step("mkdir", dir)
	if happens {
		f.changed(nameChange{node: ram.NewDir[*inode](nil), to: to})
	}
	return err
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.alive()
	if err == nil {
		err = f.remove(name)
	}
	return ram.PathError("remove", name, err)
}

func (f *FS) remove(name string) error {
	from, err := f.root.ForRemove(name)
	if err != nil {
		return err
	}
	happens, err := f.step("remove", name)
	if happens {
		f.changed(nameChange{node: from.Node(), from: from})
	}
	return err
}

// RemoveAll implements vfs.FS. A crash may leave any part of the tree.
func (f *FS) RemoveAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.alive(); err != nil {
		return ram.PathError("remove", name, err)
	}
	n, err := f.root.Find(name)
	switch {
	case ram.IsMissing(err):
		return nil // there is nothing to remove
	case err != nil:
		return ram.PathError("remove", name, err)
	}
	return ram.PathError("remove", name, f.removeAll(name, n))
}

func (f *FS) removeAll(name string, n *node) error {
	for _, entry := range n.Names() {
		if err := f.removeAll(path.Join(name, entry), n.Entries[entry]); err != nil {
			return err
		}
	}
	return f.remove(name)
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldName, newName string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.alive()
	if err == nil {
		err = f.rename(oldName, newName)
	}
	if err != nil {
		return fmt.Errorf("rename %s to %s: %w", oldName, newName, err)
	}
	return nil
}

func (f *FS) rename(oldName, newName string) error {
	from, to, err := f.root.ForRename(oldName, newName)
	if err != nil || from == to {
		return err
	}
	happens, err := f.step("rename", oldName, newName)
	if happens {
		f.changed(nameChange{node: from.Node(), from: from, to: to})
	}
	return err
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(dir string) error {
	f.wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.alive()
	if err != nil {
		return ram.PathError("fsync", dir, err)
	}
	n, err := f.root.FindDir(dir)
	if err != nil {
		return ram.PathError("fsync", dir, err)
	}
	happens, err := f.step("syncdir", dir)
	if happens {
		f.commit(n)
	}
	if err == nil {
		f.dirSyncs++
	}
	return ram.PathError("fsync", dir, err)
}

// wait sleeps for the time of a sync, without any lock.
func (f *FS) wait() {
	f.mu.Lock()
	latency := f.latency
	f.mu.Unlock()
	if latency > 0 {
		time.Sleep(latency)
	}
}
