package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Sizes of the files of a File.
const (
	fileBytes = 64 << 20
	fileCount = 8
)

// File is a Sink that writes to a file which only the broker's user may read. A file that has
// reached 64 MiB is renamed to NAME.1, the one before to NAME.2 and so on; there are at most 8. If
// another program renames, removes or cuts the file, the next line is the first of a new one.
//
// While it is open, a failed sync is never followed by one that could hide it: what was not synced
// is cut off, so that the next sync is about new writes only.
type File struct {
	name   string
	f      lines
	size   int64
	synced int64 // up to where the file is durable
	max    int64
	failed error // of a sync, which the next Flush returns; no line is written until then
}

// lines is the part of os.File that a File uses.
type lines interface {
	io.WriterAt
	io.Closer
	Stat() (os.FileInfo, error)
	Truncate(size int64) error
	Sync() error
}

// OpenFile opens a file, which is made if it is missing, and continues at its end. Its permissions
// become 0600.
func OpenFile(name string) (*File, error) {
	x := &File{name: name, max: fileBytes}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	err := x.open()
	return x, err
}

func (x *File) open() error {
	f, err := create(x.name)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	last := []byte{'\n'}
	if err == nil && info.Size() > 0 {
		_, err = f.ReadAt(last, info.Size()-1)
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	if err := errors.Join(f.Sync(), vfs.OS().SyncDir(filepath.Dir(x.name))); err != nil {
		_ = f.Close()
		return err
	}
	x.f, x.size, x.synced = f, info.Size(), info.Size()
	if last[0] != '\n' { // a crash has cut the last line
		return x.Write([]byte{'\n'})
	}
	return nil
}

// create opens a file of lines, and makes it if it is missing.
func create(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err == nil && info.Mode().Perm() != 0o600 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Write implements Sink. What a failed write or sync has left of lines is cut off before the next.
func (x *File) Write(line []byte) error {
	if x.failed != nil {
		return x.failed
	}
	if err := x.follow(); err != nil {
		return err
	}
	if x.size > 0 && x.size+int64(len(line)) > x.max {
		if x.failed = x.sync(); x.failed != nil {
			return x.failed
		}
		if err := x.rotate(); err != nil {
			return err
		}
	}
	if _, err := x.f.WriteAt(line, x.size); err != nil {
		_ = x.f.Truncate(x.size) // follow tries again
		return err
	}
	x.size += int64(len(line))
	return nil
}

// follow cuts off what is not a line. It begins a new file if the present one has another name now
// or none, as after logrotate: its lines might never be read. In a file that was cut it continues
// at the end.
func (x *File) follow() error {
	is, err := x.f.Stat()
	if err != nil {
		return err
	}
	x.size = min(x.size, is.Size())
	x.synced = min(x.synced, x.size)
	if x.size < is.Size() {
		if err := x.f.Truncate(x.size); err != nil {
			return err
		}
	}
	named, err := os.Stat(x.name)
	switch {
	case err == nil && os.SameFile(is, named):
		return nil
	case err != nil && !os.IsNotExist(err):
		return err
	}
	if x.failed = x.sync(); x.failed != nil {
		return x.failed
	}
	moved := x.f
	err = x.open()
	if x.f != moved {
		err = errors.Join(err, moved.Close())
	}
	return err
}

// rotate renames the files and begins a new one. It makes the new one first: if that fails, as on a
// full disk, no old line is given up.
func (x *File) rotate() error {
	fresh, err := create(x.name + ".new")
	if err != nil {
		return err
	}
	names := []string{x.name + ".new", x.name}
	for i := 1; i < fileCount; i++ {
		names = append(names, fmt.Sprintf("%s.%d", x.name, i))
	}
	for i := len(names) - 2; i >= 0; i-- {
		if err := os.Rename(names[i], names[i+1]); err != nil && !os.IsNotExist(err) {
			_ = fresh.Close()
			return err
		}
	}
	if err := vfs.OS().SyncDir(filepath.Dir(x.name)); err != nil {
		_ = fresh.Close()
		return err // follow opens it again
	}
	full := x.f
	x.f, x.size, x.synced = fresh, 0, 0
	return full.Close()
}

// sync makes the lines durable. If it fails, those since the last sync are gone: the kernel may
// have dropped them, and another sync would not say so.
func (x *File) sync() error {
	err := x.f.Sync()
	if err == nil {
		x.synced = x.size
		return nil
	}
	x.size = x.synced
	return err
}

// Flush implements Sink: the lines survive a power failure.
func (x *File) Flush() error {
	err := x.failed
	if err == nil {
		err = x.sync()
	}
	x.failed = nil
	return err
}

// Close implements Sink. It cuts off what a failed sync has left.
func (x *File) Close() error {
	is, err := x.f.Stat()
	if err == nil && x.size < is.Size() {
		err = x.f.Truncate(x.size)
	}
	return errors.Join(err, x.f.Close())
}
