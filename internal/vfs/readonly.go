package vfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
	"time"
)

// ReadOnly returns a read-only view of a file system: calls that would change something fail with
// EROFS. It opens files for reading, so it needs no write permission. Lock excludes other processes
// without writing anything, if the lock file exists; if not, no process has used the directory.
func ReadOnly(fsys FS) FS { return readOnly{fsys} }

// reader is a file system that can be read without write permission.
type reader interface {
	openRead(name string) (File, error)
	lockRead(name string) (io.Closer, error)
}

type readOnly struct{ fs FS }

func refuse(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS} }

func (r readOnly) Open(name string) (File, error) {
	open := r.fs.Open
	if x, ok := r.fs.(reader); ok {
		open = x.openRead
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return readOnlyFile{f}, nil
}

func (r readOnly) Create(name string) (File, error)           { return nil, refuse("create", name) }
func (r readOnly) MkdirAll(name string) error                 { return refuse("mkdir", name) }
func (r readOnly) Remove(name string) error                   { return refuse("remove", name) }
func (r readOnly) RemoveAll(name string) error                { return refuse("remove", name) }
func (r readOnly) Rename(oldName, _ string) error             { return refuse("rename", oldName) }
func (r readOnly) List(dir string) ([]Info, error)            { return r.fs.List(dir) }
func (r readOnly) Stat(name string) (Info, error)             { return r.fs.Stat(name) }
func (r readOnly) SyncDir(dir string) error                   { return refuse("fsync", dir) }
func (r readOnly) SetModified(name string, _ time.Time) error { return refuse("chtimes", name) }
func (r readOnly) Free(dir string) (a, t uint64, e error)     { return r.fs.Free(dir) }

func (r readOnly) Lock(name, _ string) (io.Closer, error) {
	if _, err := r.fs.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return unlocked{}, nil
	} else if err != nil {
		return nil, err
	}
	if x, ok := r.fs.(reader); ok {
		return x.lockRead(name)
	}
	holder, err := r.content(name)
	if err != nil {
		return nil, err
	}
	return r.fs.Lock(name, holder) // it writes the existing text
}

func (r readOnly) content(name string) (string, error) {
	f, err := r.Open(name)
	if err != nil {
		return "", err
	}
	b := make([]byte, maxHolder)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(b[:n]), errors.Join(err, f.Close())
}

// unlocked is the lock of a directory without a lock file.
type unlocked struct{}

func (unlocked) Close() error { return nil }

// readOnlyFile rejects calls that change a file.
type readOnlyFile struct{ File }

func (f readOnlyFile) WriteAt([]byte, int64) (int, error)      { return 0, refuse("write", f.Name()) }
func (f readOnlyFile) WriteVecAt([][]byte, int64) (int, error) { return 0, refuse("write", f.Name()) }
func (f readOnlyFile) Datasync() error                         { return refuse("fdatasync", f.Name()) }
func (f readOnlyFile) Allocate(int64, int64) error             { return refuse("allocate", f.Name()) }
func (f readOnlyFile) Truncate(int64) error                    { return refuse("truncate", f.Name()) }
