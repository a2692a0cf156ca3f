//go:build linux || darwin

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Other users must not read records or the keys of users.
const (
	filePerm = 0o600
	dirPerm  = 0o700
)

var errNotRegular = errors.New("not a regular file")

// maxHolder bounds the part of a lock file that is read for the error text, in bytes.
const maxHolder = 512

// OS returns the file system of the operating system. Relative names start at the working
// directory.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) Open(name string) (File, error) { return openFile(name, os.O_RDWR) }

func (osFS) Create(name string) (File, error) {
	return openFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// openRead is Open with read access only.
func (osFS) openRead(name string) (File, error) { return openFile(name, os.O_RDONLY) }

func openFile(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, filePerm)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err == nil {
		var st fs.FileInfo
		if st, err = f.Stat(); err == nil && !st.Mode().IsRegular() {
			err = errNotRegular
		}
	}
	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: name, Err: err}, f.Close())
	}
	return &osFile{File: f, raw: raw}, nil
}

func (osFS) MkdirAll(name string) error           { return os.MkdirAll(name, dirPerm) }
func (osFS) Remove(name string) error             { return os.Remove(name) }
func (osFS) RemoveAll(name string) error          { return os.RemoveAll(name) }
func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

func (osFS) Stat(name string) (Info, error) {
	st, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return info(filepath.Base(name), st), nil
}

func info(name string, st fs.FileInfo) Info {
	if st.IsDir() {
		return Info{Name: name, Dir: true}
	}
	return Info{Name: name, Size: st.Size(), Modified: st.ModTime()}
}

// List follows symbolic links, as Stat does: a directory may be a link to another disk. It skips
// entries that disappear in the meantime.
func (osFS) List(dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	list := make([]Info, 0, len(entries))
	for _, e := range entries {
		st, err := e.Info()
		if err == nil && e.Type()&fs.ModeSymlink != 0 {
			st, err = os.Stat(filepath.Join(dir, e.Name()))
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, info(e.Name(), st))
	}
	return list, nil
}

func (osFS) SetModified(name string, at time.Time) error {
	return os.Chtimes(name, time.Time{}, at) // keeps the access time
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(d), d.Close())
}

// Lock uses flock: the kernel releases the lock when the process ends, however it ends, so a stale
// file never blocks startup.
func (osFS) Lock(name, holder string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f, holder); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockRead excludes processes that hold Lock, and writes nothing.
func (osFS) lockRead(name string) (io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if err := flock(f, unix.LOCK_SH); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func lockFile(f *os.File, holder string) error {
	if err := flock(f, unix.LOCK_EX); err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(holder), 0)
	return err
}

// flock locks a file; if it is locked, the error names the holder.
func flock(f *os.File, how int) error {
	err := retry(func() error { return unix.Flock(int(f.Fd()), how|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		buf := make([]byte, maxHolder)
		n, err := f.ReadAt(buf, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return locked(f.Name(), string(buf[:n]))
	}
	if err != nil {
		return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return nil
}

// locked returns the error of a lock that is held.
func locked(name, holder string) error {
	return fmt.Errorf("lock %s: %w (%s)", name, ErrLocked, strings.TrimSpace(holder))
}

// restrict takes the rights of other users to a file or directory away.
func (osFS) restrict(name string) (changed bool, err error) {
	st, err := os.Stat(name)
	if err != nil || st.Mode().Perm()&0o077 == 0 {
		return false, err
	}
	return true, os.Chmod(name, st.Mode().Perm()&^0o077)
}

func (osFS) Free(dir string) (available, total uint64, err error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := blockSize(&st)
	return st.Bavail * block, st.Blocks * block, nil
}

// Descriptors returns the maximum number of open files of the process, sockets included; 0 if it is
// unknown.
func Descriptors() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return int(min(r.Cur, 1<<30))
}

// retry repeats a system call that was interrupted by a signal without effect.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
