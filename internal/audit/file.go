package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

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
	fs     vfs.FS
	name   string
	f      vfs.File
	size   int64
	synced int64 // up to where the file is durable
	max    int64
	failed error // of a sync, which the next Flush returns; no line is written until then
}

// OpenFile opens a file, which is made if it is missing, and continues at its end. Its permissions
// become 0600.
func OpenFile(fsys vfs.FS, name string) (*File, error) {
	x := &File{fs: fsys, name: name, max: fileBytes}
	if err := vfs.MakeDir(fsys, path.Dir(name)); err != nil {
		return nil, err
	}
	if err := x.open(); err != nil {
		return nil, err
	}
	return x, nil
}

func (x *File) open() error {
	f, err := x.fs.Open(x.name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = x.fs.Create(x.name)
	}
	if err != nil {
		return err
	}
	_, err = vfs.RestrictFile(x.fs, x.name)
	var size int64
	if err == nil {
		size, err = f.Size()
	}
	last := []byte{'\n'}
	if err == nil && size > 0 {
		_, err = f.ReadAt(last, size-1)
	}
	if err == nil {
		err = errors.Join(f.Datasync(), x.fs.SyncDir(path.Dir(x.name)))
	}
	synced := size
	if err == nil && last[0] != '\n' { // a crash has cut the last line
		_, err = f.WriteAt([]byte{'\n'}, size)
		size++
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	x.f, x.size, x.synced = f, size, synced
	return nil
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
		_ = x.f.Truncate(x.size) // cut tries again
		return err
	}
	x.size += int64(len(line))
	return nil
}

// follow cuts off what is not a line. It begins a new file if the present one has another name now
// or none, as after logrotate: its lines might never be read. In a file that was cut it continues
// at the end.
func (x *File) follow() error {
	if err := x.cut(); err != nil {
		return err
	}
	if named, err := x.f.Named(); named || err != nil {
		return err
	}
	if x.failed = x.sync(); x.failed != nil {
		return x.failed
	}
	moved := x.f
	if err := x.open(); err != nil {
		return err
	}
	_ = moved.Close() // it is synced
	return nil
}

// cut cuts off what is not a line.
func (x *File) cut() error {
	is, err := x.f.Size()
	if err != nil {
		return err
	}
	x.size = min(x.size, is)
	x.synced = min(x.synced, x.size)
	if x.size < is {
		return x.f.Truncate(x.size)
	}
	return nil
}

// rotate renames the files and begins a new one. It makes the new one first: if that fails, as on a
// full disk, no old line is given up.
func (x *File) rotate() error {
	names := []string{x.name + ".new", x.name}
	for i := 1; i < fileCount; i++ {
		names = append(names, fmt.Sprintf("%s.%d", x.name, i))
	}
	if err := x.fs.RemoveAll(names[0]); err != nil { // of a rotation that has failed
		return err
	}
	fresh, err := x.fs.Create(names[0])
	if err != nil {
		return err
	}
	err = fresh.Close()
	for i := len(names) - 2; i >= 0 && err == nil; i-- {
		if err = x.fs.Rename(names[i], names[i+1]); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	full := x.f
	if err := x.open(); err != nil {
		return err // follow opens it
	}
	_ = full.Close() // it is synced
	return nil
}

// sync makes the lines durable. If it fails, those since the last sync are gone: the kernel may
// have dropped them, and another sync would not say so.
func (x *File) sync() error {
	err := x.cut()
	if err == nil {
		err = x.f.Datasync()
	}
	if err == nil {
		x.synced = x.size
		return nil
	}
	x.size = x.synced
	_ = x.f.Truncate(x.size) // cut tries again
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
	return errors.Join(x.cut(), x.f.Close())
}
