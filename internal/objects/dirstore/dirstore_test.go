package dirstore

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/objecttest"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a store in the directory /store of fsys.
func open(t testing.TB, fsys vfs.FS) *Store {
	t.Helper()
	must.OK(t, vfs.MakeDir(fsys, "/store"))
	s, err := Open(fsys, "/store")
	must.OK(t, err)
	return s
}

func TestContract(t *testing.T) {
	for name, makes := range map[string]func(*testing.T) objects.Store{
		"real": func(t *testing.T) objects.Store {
			s, err := Open(vfs.OS(), t.TempDir())
			must.OK(t, err)
			return s
		},
		"memory":  func(t *testing.T) objects.Store { return open(t, vfs.Memory()) },
		"crashfs": func(t *testing.T) objects.Store { return open(t, crashfs.New(1)) },
		"errfs":   func(t *testing.T) objects.Store { return open(t, errfs.New(vfs.Memory())) },
	} {
		t.Run(name, func(t *testing.T) { objecttest.Run(t, makes) })
	}
}

// sentFile notes how many bytes at most were written and not sent to the disk.
type sentFile struct {
	vfs.File
	written, sent, most int64
	fails               error // of Writeback
}

func (f *sentFile) WriteAt(p []byte, off int64) (int, error) {
	f.written = off + int64(len(p))
	f.most = max(f.most, f.written-f.sent)
	return f.File.WriteAt(p, off)
}

func (f *sentFile) StartWriteback(int64, int64) {}

func (f *sentFile) Writeback(off, n int64) error {
	f.sent = off + n
	return f.fails
}

// Syncs of other files wait for no more than a piece of an object, whatever its size. An error
// counts, since the datasync that follows does not return it again.
func TestAnObjectIsSentToTheDiskInPieces(t *testing.T) {
	for _, fails := range []error{nil, syscall.EIO} {
		file, err := vfs.Memory().Create("/x")
		must.OK(t, err)
		f := &sentFile{File: file, fails: fails}
		err = fill(context.Background(), f, bytes.NewReader(make([]byte, 4*piece+5000)))
		if !errors.Is(err, fails) || f.most != piece {
			t.Errorf("with the error %v: %v, and %d bytes were ahead", fails, err, f.most)
		}
	}
}
