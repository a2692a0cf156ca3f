// Package dirstore stores objects as files of a directory: another disk, or a file system that
// other machines share.
//
// A file gets its name when its bytes are durable, so an object is whole or missing, also after a
// loss of power. The directory must exist when the store is opened: one that is missing is probably
// a file system that is not mounted. What a Put leaves that ended early has a name for which
// objects.Unfinished is true, and is deleted like an object.
//
// Calls to a file system can hang, and cannot be canceled. So each runs on a goroutine of its own,
// and its caller waits no longer than its context. At most Parallel calls run at a time, so that a
// file system that hangs holds no more goroutines than that. The package does not know what an
// object contains.
package dirstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Parallel is how many calls to the file system run at a time.
const Parallel = 16

// Store is a directory. See objects.Store for its methods.
type Store struct {
	fs    vfs.FS
	root  string
	slots chan struct{} // holds an element for each call that runs: capacity Parallel
	write chan struct{} // holds an element while a piece of an object is written: capacity 1
	label label.Label
}

var _ objects.Store = (*Store)(nil)

// Open returns the store in the directory root. It fails if root is not a directory. It may wait
// for the disk.
func Open(fsys vfs.FS, root string) (*Store, error) {
	in, err := fsys.Stat(root)
	if err == nil && !in.Dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, fmt.Errorf("open the object store %s: %w; mount its file system, or create the directory", root, err)
	}
	return &Store{fs: fsys, root: path.Clean(root), slots: make(chan struct{}, Parallel),
		write: make(chan struct{}, 1), label: label.New("object store", root)}, nil
}

// do runs a call to the file system and waits for it until ctx ends. The call must use nothing that
// its caller may use after do has returned.
func (s *Store) do(ctx context.Context, call func() error) error {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for one of %d calls to %s: %w", Parallel, s.root, context.Cause(ctx))
	}
	if ctx.Err() != nil {
		<-s.slots
		return context.Cause(ctx)
	}
	done := make(chan error, 1)
	go func() {
		s.label.Set()
		defer func() { <-s.slots }()
		done <- call()
	}()
	select {
	case err := <-done:
		return explain(err)
	case <-ctx.Done():
		return fmt.Errorf("%s hangs: %w", s.root, context.Cause(ctx))
	}
}

// explain adds the error of package objects that an error of the file system means.
func explain(err error) error {
	switch {
	case vfs.Full(err):
		return fmt.Errorf("%w: %w", objects.ErrFull, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w: %w", objects.ErrRefused, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // what would be a directory is an object
		return fmt.Errorf("%w: %w", objects.ErrNotFound, err)
	}
	return err
}

func (s *Store) path(name string) string { return s.root + "/" + name }

// Put implements objects.Store.
func (s *Store) Put(ctx context.Context, name string, body objects.Body) error {
	if err := objects.CheckPut(name, body); err != nil {
		return err
	}
	return s.do(ctx, func() error { return s.put(ctx, name, body) })
}

func (s *Store) put(ctx context.Context, name string, body objects.Body) error {
	if _, err := s.fs.Stat(s.root); err != nil { // MkdirAll must not create it: see Open
		return fmt.Errorf("%s was there when the store was opened: %v", s.root, err) //nolint:errorlint // a later attempt may find it
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	name = s.path(name)
	temporary := objects.UnfinishedName(name, hex.EncodeToString(random[:]))
	f, err := s.create(temporary)
	if err != nil {
		return err
	}
	err = s.fill(ctx, f, body)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = s.fs.Rename(temporary, name)
	}
	if err != nil {
		_ = s.fs.Remove(temporary) // a collection removes what stays
		if errors.Is(err, fs.ErrNotExist) {
			err = errDeleted
		}
		return err
	}
	return s.syncNames(name)
}

// create creates a file and the directories above it, again if a Delete removes one meanwhile.
func (s *Store) create(name string) (f vfs.File, err error) {
	for range 100 {
		if err = s.fs.MkdirAll(path.Dir(name)); err == nil {
			f, err = s.fs.Create(name)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, errDeleted
}

// errDeleted matches no error of package objects, so the call is repeated.
var errDeleted = errors.New("the unfinished object, or its directory, was deleted")

// syncNames makes a file's name durable. It syncs all directories up to the root, whatever made
// them: another process may have created one and not synced it yet.
func (s *Store) syncNames(name string) error {
	for name != s.root {
		name = path.Dir(name)
		if err := s.fs.SyncDir(name); err != nil {
			return err
		}
	}
	return nil
}

// piece is how many bytes are copied at a time, and how many the disk has to write at once.
const piece = 1 << 20

// fill writes the bytes of body to a new file and makes them durable. The disk gets one piece after
// the other, whatever the number of objects: behind them, a datasync of other files waits for as
// long as they are written, and these may be journals.
func (s *Store) fill(ctx context.Context, f vfs.File, body objects.Body) error {
	size := body.Size()
	b := make([]byte, min(piece, size))
	for off := int64(0); off < size; off += int64(len(b)) {
		b = b[:min(int64(len(b)), size-off)]
		if n, err := body.ReadAt(b, off); n < len(b) {
			return fmt.Errorf("read the object to write: %w", short(err))
		}
		if err := s.send(ctx, f, off, b); err != nil {
			return err
		}
	}
	return f.Datasync()
}

// send writes a piece of an object, and waits until the disk has it. No other one is written
// meanwhile.
func (s *Store) send(ctx context.Context, f vfs.File, off int64, b []byte) error {
	select {
	case s.write <- struct{}{}:
		defer func() { <-s.write }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := f.WriteAt(b, off); err != nil {
		return err
	}
	return vfs.Writeback(f, off, int64(len(b)))
}

// short returns the error of a read that should not have ended.
func short(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Get implements objects.Store.
func (s *Store) Get(ctx context.Context, name string, off int64, p []byte) (n int, err error) {
	if err := objects.CheckListed(name); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, fmt.Errorf("%w: a read from position %d", objects.ErrRefused, off)
	}
	var b []byte // the caller may reuse p while a call that hangs still reads
	var got int
	var end error
	err = s.do(ctx, func() error {
		f, err := s.fs.Open(s.path(name))
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was only read
		size, err := f.Size()
		if err != nil {
			return err
		}
		b = make([]byte, min(int64(len(p)), max(0, size-off)+1)) // most objects are smaller than p
		got, err = f.ReadAt(b, off)
		switch {
		case errors.Is(err, io.EOF):
			end, err = io.EOF, nil
		case err == nil && got < len(p):
			err = fmt.Errorf("%s has become longer while it was read, and objects do not change", s.path(name))
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return copy(p, b[:got]), end
}

// Copy implements objects.Store.
func (s *Store) Copy(ctx context.Context, from objects.Info, to string) error {
	if err := objects.CheckListed(from.Name); err != nil {
		return err
	}
	if err := objects.CheckName(to); err != nil {
		return err
	}
	return s.do(ctx, func() error {
		f, err := s.fs.Open(s.path(from.Name))
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was only read
		size, err := f.Size()
		if err != nil {
			return err
		}
		return s.put(ctx, to, io.NewSectionReader(f, 0, size))
	})
}

// Delete implements objects.Store. It also removes the directories that become empty.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := objects.CheckListed(name); err != nil {
		return err
	}
	return s.do(ctx, func() error {
		if err := s.fs.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for dir := path.Dir(s.path(name)); dir != s.root; dir = path.Dir(dir) {
			// A list before it saves most of the removals that would fail.
			if infos, err := s.fs.List(dir); err != nil || len(infos) > 0 || s.fs.Remove(dir) != nil {
				break
			}
		}
		return nil
	})
}

// List implements objects.Store. It calls each on the caller's goroutine.
func (s *Store) List(ctx context.Context, prefix string, each func(objects.Info) error) error {
	if err := objects.CheckPrefix(prefix); err != nil {
		return err
	}
	return s.list(ctx, prefix, each)
}

// list lists the files below a prefix that is empty or ends in a slash.
func (s *Store) list(ctx context.Context, prefix string, each func(objects.Info) error) error {
	var infos []vfs.Info
	err := s.do(ctx, func() (err error) {
		infos, err = s.fs.List(strings.TrimSuffix(s.path(prefix), "/"))
		return err
	})
	if errors.Is(err, objects.ErrNotFound) && prefix != "" {
		return nil // no object, or the last one was deleted meanwhile
	}
	if err != nil {
		return err
	}
	for _, in := range infos {
		name := prefix + in.Name
		switch {
		case objects.CheckListed(name) != nil: // another program's, such as lost+found
		case in.Dir:
			err = s.list(ctx, name+"/", each)
		default:
			err = each(objects.Info{Name: name, Size: in.Size})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
