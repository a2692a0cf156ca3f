package dirstore

import (
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
