package filestore

import (
	"bytes"
	"context"
	"errors"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/vfs"
)

// written returns a directory with one generation: a snapshot with keys and a log with
// transactions, stopped cleanly. It also returns the store's content.
func written(t testing.TB) (vfs.FS, string) {
	t.Helper()
	fsys := vfs.Memory()
	s := open(t, fsys)
	mustTxn(t, s, put("/old", "1"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, fsys)
	mustTxn(t, s, put("/a", "1"))
	mustTxn(t, s, metadata.Txn{Put: []metadata.KV{{Key: "/b", Value: []byte("2")}}, Delete: []string{"/a"}})
	held := dump(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return fsys, held
}

func files(t testing.TB, fsys vfs.FS) map[string][]byte {
	t.Helper()
	list, err := fsys.List("/m")
	if err != nil {
		t.Fatal(err)
	}
	m := map[string][]byte{}
	for _, info := range list {
		if m[info.Name], err = vfs.ReadFile(fsys, path.Join("/m", info.Name)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// with returns a file system with these files.
func with(t testing.TB, files map[string][]byte) vfs.FS {
	t.Helper()
	fsys := vfs.Memory()
	if err := fsys.MkdirAll("/m"); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		f, err := fsys.Create(path.Join("/m", name))
		if err == nil {
			_, err = f.WriteAt(content, 0)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return fsys
}

// tryOpen opens a copy of the files and returns the content or the error. After an error it checks
// that nothing was changed.
func tryOpen(t testing.TB, content map[string][]byte) (string, error) {
	t.Helper()
	fsys := with(t, content)
	s, err := Open(Options{FS: fsys, Dir: "/m", Log: zap.NewNop()})
	if err != nil {
		for name, p := range files(t, fsys) {
			if !bytes.Equal(content[name], p) {
				t.Errorf("%s was changed by an open that failed with %v", name, err)
			}
		}
		return "", err
	}
	defer s.Close()
	return dump(t, s), nil
}

func clone(files map[string][]byte) map[string][]byte {
	m := map[string][]byte{}
	for name, p := range files {
		m[name] = append([]byte{}, p...)
	}
	return m
}

// After a clean stop, no flipped bit goes unnoticed, not even in the last transaction.
func TestEveryFlippedBitIsFoundOrHarmless(t *testing.T) {
	fsys, held := written(t)
	whole := files(t, fsys)
	if len(whole) != 2 {
		t.Fatalf("files: %v", whole)
	}
	for name, p := range whole {
		for i := range 8 * len(p) {
			broken := clone(whole)
			broken[name][i/8] ^= 1 << (i % 8)
			got, err := tryOpen(t, broken)
			switch {
			case err == nil && got != held:
				t.Fatalf("%s with bit %d of byte %d flipped opens as %s, want %s or an error", name, i%8, i/8, got, held)
			case err != nil && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), name)):
				t.Fatalf("bit %d of byte %d of %s: %v, want damage of that file", i%8, i/8, name, err)
			}
		}
	}
}

// faulty is a file system in which one kind of call can be made to fail.
type faulty struct {
	vfs.FS
	broken atomic.Value // string: write, sync or directories
}

var errDisk = errors.New("input/output error")

func (f *faulty) fails(kind string) bool { return f.broken.Load() == kind }

func (f *faulty) Create(name string) (vfs.File, error) {
	h, err := f.FS.Create(name)
	return &faultyFile{h, f}, err
}

func (f *faulty) SyncDir(dir string) error {
	if f.fails("directories") {
		return errDisk
	}
	return f.FS.SyncDir(dir)
}

type faultyFile struct {
	vfs.File
	fs *faulty
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	if f.fs.fails("write") {
		n, _ := f.File.WriteAt(p[:len(p)/2], off)
		return n, errDisk
	}
	return f.File.WriteAt(p, off)
}

func (f *faultyFile) Datasync() error {
	if f.fs.fails("sync") {
		return errDisk
	}
	return f.File.Datasync()
}

func generation(t *testing.T, fsys vfs.FS) uint64 {
	t.Helper()
	c, err := Check(fsys, "/m")
	if err != nil {
		t.Fatal(err)
	}
	return c.Generation
}

// I5: after a failure nothing more is written to that file. When the disk works again, the store
// continues with a new generation of the confirmed state.
func TestFailureLatchesUntilANewGenerationIsWritten(t *testing.T) {
	for _, kind := range []string{"write", "sync", "directories"} {
		t.Run(kind, func(t *testing.T) {
			fsys := &faulty{FS: vfs.Memory()}
			s := open(t, fsys, func(o *Options) { o.CompactBytes = 100 })
			mustTxn(t, s, put("/a", "1"))
			dead := generation(t, fsys)
			fsys.broken.Store(kind)
			// A failed directory sync affects the generation that this transaction begins, after it
			// was acknowledged; the next transaction gets the error.
			_, err := s.Txn(context.Background(), put("/b", string(make([]byte, 300))))
			acked := err == nil
			if acked != (kind == "directories") {
				t.Errorf("the transaction that met the failure: %v", err)
			}
			for range 3 {
				if _, err := s.Txn(context.Background(), put("/c", "1")); !errors.Is(err, metadata.ErrFailed) || !errors.Is(err, errDisk) {
					t.Errorf("a transaction while the disk fails: %v", err)
				}
			}
			if s.Failed() == nil {
				t.Error("the store does not report its failure")
			}
			if kv, _, err := s.Get(context.Background(), "/a"); string(kv.Value) != "1" || err != nil {
				t.Errorf("reading after the failure: %s, %v", kv.Value, err)
			}
			fsys.broken.Store("")
			mustTxn(t, s, put("/d", "1"))
			if s.Failed() != nil || generation(t, fsys) == dead {
				t.Errorf("after the failure: %v, still in generation %d", s.Failed(), dead)
			}
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			again := open(t, fsys)
			for key, want := range map[string]bool{"/a": true, "/b": acked, "/c": false, "/d": true} {
				if kv, _, err := again.Get(context.Background(), key); (kv.ModRevision != 0) != want || err != nil {
					t.Errorf("reopened after the failure: %s at revision %d, %v; want it to exist: %v", key, kv.ModRevision, err, want)
				}
			}
		})
	}
}
