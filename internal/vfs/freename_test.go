package vfs_test

import (
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestFreeNameIsFree(t *testing.T) {
	fsys := vfs.Memory()
	for _, want := range []string{"/d.away", "/d.away2", "/d.away3"} {
		if got := vfs.FreeName(fsys, "/d"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		must.OK(t, vfs.MakeDir(fsys, want))
	}
}
