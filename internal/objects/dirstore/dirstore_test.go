package dirstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
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

// unsent counts the bytes of several files that were written and not sent to the disk.
type unsent struct {
	now, most atomic.Int64
	fails     error // of Writeback
}

// sentFile is one of them.
type sentFile struct {
	vfs.File
	*unsent
}

func (f *sentFile) WriteAt(p []byte, off int64) (int, error) {
	n := f.now.Add(int64(len(p)))
	for most := f.most.Load(); n > most && !f.most.CompareAndSwap(most, n); most = f.most.Load() {
	}
	return f.File.WriteAt(p, off)
}

func (f *sentFile) StartWriteback(int64, int64) {}

func (f *sentFile) Writeback(_, n int64) error {
	runtime.Gosched()
	f.now.Add(-n)
	return f.fails
}

// Syncs of other files wait for no more than a piece of an object, whatever their size and number.
// An error counts, since the datasync that follows does not return it again.
func TestObjectsAreSentToTheDiskInPieces(t *testing.T) {
	for _, fails := range []error{nil, syscall.EIO} {
		fsys := vfs.Memory()
		must.OK(t, fsys.MkdirAll("/store"))
		s, err := Open(fsys, "/store")
		must.OK(t, err)
		all := unsent{fails: fails}
		var running sync.WaitGroup
		for i := range 4 {
			file, err := fsys.Create(fmt.Sprintf("/store/%d", i))
			must.OK(t, err)
			running.Go(func() {
				body := bytes.NewReader(make([]byte, 4*piece+5000))
				if err := s.fill(context.Background(), &sentFile{file, &all}, body); !errors.Is(err, fails) {
					t.Errorf("with the error %v: %v", fails, err)
				}
			})
		}
		running.Wait()
		if all.most.Load() != piece {
			t.Errorf("with the error %v, %d bytes were ahead", fails, all.most.Load())
		}
	}
}

// What waits for its turn ends with its context.
func TestAPieceWaitsNoLongerThanItsCall(t *testing.T) {
	fsys := vfs.Memory()
	must.OK(t, fsys.MkdirAll("/store"))
	s, err := Open(fsys, "/store")
	must.OK(t, err)
	s.write <- struct{}{} // another piece, which hangs
	file, err := fsys.Create("/store/x")
	must.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.fill(ctx, file, bytes.NewReader(make([]byte, 10))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(s.write) != 1 {
		t.Error("it has taken the turn of the other piece")
	}
}
