// Package vfs is a broker's only way to the disk.
//
// It owns two small interfaces, FS and File, and the real file system. All code that stores what a
// broker works with takes an FS. The same code therefore runs on a disk, in memory, under a model
// of power loss (internal/testing/crashfs) and with injected faults (internal/testing/errfs). Not
// so the files of `chronikd secure`, whose owners and modes an FS does not have, and those that a
// command writes for its user, such as a bundle.
//
// Every error of the kernel is returned as an error value, wrapped with the operation and the path.
// A method returns without an error only if the kernel completed it. The package knows nothing
// of logs, frames or records.
package vfs

import (
	"errors"
	"io"
	"time"
)

// ErrLocked is returned by FS.Lock when the lock is held: by another broker, which may be in this
// process, or by a tool.
var ErrLocked = errors.New("locked by another broker or a tool")

// FS is a tree of files and directories. Names are slash-separated paths. Errors for missing and
// existing files match fs.ErrNotExist and fs.ErrExist. All methods may be called concurrently.
//
// Durability follows POSIX as ext4 and XFS implement it: bytes are durable after File.Datasync.
// Directory entries (added by Create, MkdirAll and Rename, removed by Remove and Rename) are
// durable only after SyncDir of their directory.
type FS interface {
	// Open opens an existing file for reading and writing. It fails for what is no regular file,
	// such as a device or a pipe.
	Open(name string) (File, error)
	// Create creates a new, empty file and opens it for reading and writing. It fails with
	// fs.ErrExist if the name exists.
	Create(name string) (File, error)
	// MkdirAll creates a directory and its missing parents. It does not sync.
	MkdirAll(name string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes a file, or a directory with everything in it; a missing one is not an
	// error.
	RemoveAll(name string) error
	// Rename moves a file or directory, replacing an existing file. It fails with fs.ErrExist if
	// newName is another directory.
	Rename(oldName, newName string) error
	// List returns the entries of a directory sorted by name.
	List(dir string) ([]Info, error)
	// Stat describes a file or directory.
	Stat(name string) (Info, error)
	// SetModified sets Info.Modified of a file, because its bytes are a copy of bytes written at
	// that time. It makes nothing durable.
	SetModified(name string, at time.Time) error
	// SyncDir makes the entries of a directory durable. After an error it may be called again, and
	// then proves that they are: a file system with a journal, as ext4 and XFS are by default,
	// accepts no changes after its journal has failed.
	SyncDir(dir string) error
	// Lock takes an exclusive lock on the file name, creating it if necessary, and writes holder to
	// it. If the lock is held, the error matches ErrLocked and its text contains what
	// that process wrote. Closing the returned Closer releases the lock.
	Lock(name, holder string) (io.Closer, error)
	// Free returns the number of bytes that an unprivileged process may still write in dir, and the
	// size of the file system.
	Free(dir string) (available, total uint64, err error)
}

// Info describes a file or directory.
type Info struct {
	Name string // last element of the path
	Size int64  // bytes; 0 for a directory
	Dir  bool
	// Modified is when a file's bytes or size last changed, according to the system; zero for a
	// directory. It is not reliable: clocks go back, and a power loss may undo the last changes.
	Modified time.Time
}

// File is an open file. Positions are absolute: there is no cursor. Reads and writes of disjoint
// ranges may run concurrently.
type File interface {
	// ReadAt implements io.ReaderAt: n < len(p) only with an error, io.EOF at the end.
	io.ReaderAt
	// WriteAt implements io.WriterAt: n < len(p) only with an error.
	io.WriterAt
	// WriteVecAt writes the buffers one after the other from off on, with as few system calls as
	// the kernel allows (IOV_MAX buffers each). n is the number of bytes written, fewer than
	// requested only with an error. It changes neither the buffers nor the slice.
	WriteVecAt(bufs [][]byte, off int64) (n int, err error)
	// Datasync makes all written bytes and the size durable, even if the file became shorter
	// (fdatasync; F_FULLFSYNC on macOS), but not the file's directory entry. After an error the
	// state of all bytes written since the last success is unknown, and calling it again proves
	// nothing.
	Datasync() error
	// Allocate reserves blocks for [off, off+n), n > 0, and extends the file with zeros if
	// necessary; other content does not change. If the file system cannot reserve blocks, Allocate
	// only extends the file. It must not run concurrently with writes beyond the end of the file.
	Allocate(off, n int64) error
	// Truncate sets the file's size; added bytes are zeros.
	Truncate(size int64) error
	// Size returns the file's size in bytes.
	Size() (int64, error)
	// Name returns the path with which the file was opened.
	Name() string
	// Named reports whether Name still leads to this file; not after it was renamed, replaced or
	// removed, also by another program.
	Named() (bool, error)
	// Close closes the file. It does not sync.
	Close() error
}
