package ram

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// PathError adds the operation and the path to an error that is not nil.
func PathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Node is a file or a directory; F is the data of the file system for each.
type Node[F any] struct {
	// Entries are the entries of a directory by name; nil for a file.
	Entries map[string]*Node[F]
	// Data belongs to the file system.
	Data F
}

// Slot is a name in a directory, with or without an entry.
type Slot[F any] struct {
	Dir  *Node[F]
	Name string
}

// Node returns the entry, or nil.
func (s Slot[F]) Node() *Node[F] { return s.Dir.Entries[s.Name] }

// NewDir returns an empty directory.
func NewDir[F any](data F) *Node[F] {
	return &Node[F]{Entries: map[string]*Node[F]{}, Data: data}
}

// NewFile returns a file.
func NewFile[F any](data F) *Node[F] { return &Node[F]{Data: data} }

// IsDir reports whether n is a directory.
func (n *Node[F]) IsDir() bool { return n.Entries != nil }

// Names returns the names in a directory, sorted.
func (n *Node[F]) Names() []string {
	names := make([]string, 0, len(n.Entries))
	for name := range n.Entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// maxName is the longest name of a directory entry in bytes, as on Linux's file systems.
const maxName = 255

// split returns the elements of a path; the root has none. All paths start at the root, even
// relative ones.
func split(name string) ([]string, error) {
	clean := path.Clean("/" + name)
	if clean == "/" {
		return nil, nil
	}
	parts := strings.Split(clean[1:], "/")
	if slices.ContainsFunc(parts, func(part string) bool { return len(part) > maxName }) {
		return nil, syscall.ENAMETOOLONG
	}
	return parts, nil
}

// Find returns the node at path name; n must be the root.
func (n *Node[F]) Find(name string) (*Node[F], error) {
	if name == "" {
		return nil, syscall.ENOENT
	}
	parts, err := split(name)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		if !n.IsDir() {
			return nil, syscall.ENOTDIR
		}
		next := n.Entries[part]
		if next == nil {
			return nil, syscall.ENOENT
		}
		n = next
	}
	return n, nil
}

// IsMissing reports whether an error of Find means that nothing has the name.
func IsMissing(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR)
}

// FindDir is Find for a directory.
func (n *Node[F]) FindDir(name string) (*Node[F], error) {
	dir, err := n.Find(name)
	if err == nil && !dir.IsDir() {
		err = syscall.ENOTDIR
	}
	return dir, err
}

// Slot returns the slot of name, whose directory must exist.
func (n *Node[F]) Slot(name string) (Slot[F], error) {
	parts, err := split(name)
	switch {
	case name == "":
		return Slot[F]{}, syscall.ENOENT
	case err != nil:
		return Slot[F]{}, err
	case len(parts) == 0:
		return Slot[F]{}, syscall.EBUSY // the root has no slot
	}
	last := len(parts) - 1
	dir, err := n.FindDir("/" + strings.Join(parts[:last], "/"))
	return Slot[F]{Dir: dir, Name: parts[last]}, err
}

// ForCreate returns the empty slot for Create.
func (n *Node[F]) ForCreate(name string) (Slot[F], error) {
	s, err := n.Slot(name)
	if err == nil && s.Node() != nil {
		err = syscall.EEXIST
	}
	return s, err
}

// ForRemove returns the slot of the entry to remove.
func (n *Node[F]) ForRemove(name string) (Slot[F], error) {
	s, err := n.Slot(name)
	switch {
	case err != nil:
		return s, err
	case s.Node() == nil:
		return s, syscall.ENOENT
	case len(s.Node().Entries) > 0:
		return s, syscall.ENOTEMPTY
	}
	return s, nil
}

// ForRename returns the two slots that Rename changes. They are equal if there is nothing to do.
func (n *Node[F]) ForRename(oldName, newName string) (from, to Slot[F], err error) {
	if from, err = n.Slot(oldName); err != nil {
		return from, to, err
	}
	node := from.Node()
	if node == nil {
		return from, to, syscall.ENOENT
	}
	if to, err = n.Slot(newName); err != nil || to == from {
		return from, to, err
	}
	switch target := to.Node(); {
	case target != nil && target.IsDir():
		err = syscall.EEXIST
	case target != nil && node.IsDir():
		err = syscall.ENOTDIR
	case node.IsDir() && inside(oldName, newName):
		err = syscall.EINVAL
	}
	return from, to, err
}

// inside reports whether name is below dir.
func inside(dir, name string) bool {
	return strings.HasPrefix(path.Clean("/"+name), path.Clean("/"+dir)+"/")
}

// Missing returns the paths that MkdirAll(name) must create, parents first.
func (n *Node[F]) Missing(name string) ([]string, error) {
	var missing []string
	at := n
	done := ""
	parts, err := split(name)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		done += "/" + part
		if at != nil {
			if at = at.Entries[part]; at != nil && !at.IsDir() {
				return nil, syscall.ENOTDIR
			}
		}
		if at == nil {
			missing = append(missing, done)
		}
	}
	return missing, nil
}
