// Package vfs is the only door to the disk.
//
// It owns two small interfaces, FS and File, and the real file system behind
// them. Everything that stores a byte takes an FS, so that the same code runs
// on a disk, in memory, under a model of power loss (vfs/crashfs) and under
// injected faults (vfs/errfs).
//
// It promises that an error of the kernel arrives as an error value, wrapped
// with the operation and the path, and that a method returns without error
// only when the kernel did all of it. It knows nothing of logs, frames or
// records.
package vfs

import (
	"errors"
	"io"
	"time"
)

// ErrLocked is returned by FS.Lock when another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// FS is a tree of files and directories. Names are slash-separated paths.
// Missing and existing files are reported with errors that match fs.ErrNotExist
// and fs.ErrExist. All methods may be called concurrently.
//
// Durability follows POSIX as ext4 and XFS implement it: bytes are durable
// after File.Datasync, a directory entry (made by Create, MkdirAll, Rename,
// removed by Remove, Rename) only after SyncDir of the directory it stands in.
type FS interface {
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// Create makes a new, empty file and opens it for reading and writing. It
	// fails with fs.ErrExist where the name is taken.
	Create(name string) (File, error)
	// MkdirAll makes a directory and its missing parents. It does not sync.
	MkdirAll(name string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes a file or a directory with all below it; a missing one
	// is no error.
	RemoveAll(name string) error
	// Rename moves a file or directory, replacing a file that stands there. It
	// fails with fs.ErrExist where newName is another directory.
	Rename(oldName, newName string) error
	// List returns the entries of a directory sorted by name.
	List(dir string) ([]Info, error)
	// Stat describes one file or directory.
	Stat(name string) (Info, error)
	// SetModified changes what Info.Modified says of a file: its bytes are a copy of
	// such as were written then. It makes nothing durable.
	SetModified(name string, at time.Time) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(dir string) error
	// Lock takes an exclusive lock on the file name, creating it if necessary,
	// and writes holder into it. Where another process has the lock the error
	// matches ErrLocked and its text contains what that process wrote. Closing
	// the returned Closer gives the lock back.
	Lock(name, holder string) (io.Closer, error)
	// Free returns the bytes that an unprivileged process may still write below
	// dir, and the size of the file system.
	Free(dir string) (available, total uint64, err error)
}

// Info describes a file or directory.
type Info struct {
	Name string // last element of the path
	Size int64  // bytes; 0 for a directory
	Dir  bool
	// Modified is when a file's bytes or size last changed, as far as the system
	// knows; zero for a directory. It is no promise: clocks go back, and a loss of
	// power may take the last changes.
	Modified time.Time
}

// File is an open file. Positions are absolute: there is no cursor. Reads and
// writes of disjoint ranges may run concurrently.
type File interface {
	// ReadAt is io.ReaderAt: n < len(p) only with an error, io.EOF at the end.
	io.ReaderAt
	// WriteAt is io.WriterAt: n < len(p) only with an error.
	io.WriterAt
	// WriteVecAt writes the buffers one after the other from off on, with as
	// few system calls as the kernel allows (IOV_MAX pieces each). n is the
	// number of bytes written, less than asked for only with an error. It does
	// not change the buffers nor the slice.
	WriteVecAt(bufs [][]byte, off int64) (n int, err error)
	// Datasync makes all written bytes and the size, grown or cut, durable
	// (fdatasync; F_FULLFSYNC on macOS), not the file's directory entry. After
	// an error nothing is known about any byte written since the last success,
	// and calling it again proves nothing.
	Datasync() error
	// Allocate reserves blocks for [off, off+n), n > 0, without changing what is
	// read there beyond extending the file with zeros. A file system that cannot
	// reserve is no error: the file is only extended. It must not overlap with
	// writes past the end of the file.
	Allocate(off, n int64) error
	// Truncate sets the file's size; what it adds reads as zeros.
	Truncate(size int64) error
	// Size returns the file's size in bytes.
	Size() (int64, error)
	// Name returns the path it was opened with.
	Name() string
	// Close closes the file. It does not sync.
	Close() error
}
