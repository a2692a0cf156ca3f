package vfs_test

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestReadFile(t *testing.T) {
	fsys := errfs.New(vfs.Memory())
	for _, want := range []string{"", "x", strings.Repeat("long", 100_000)} {
		name := "file" + want[:min(len(want), 1)]
		if len(want) > 1 {
			name = "long"
		}
		f, err := fsys.Create(name)
		if err == nil && want != "" {
			_, err = f.WriteAt([]byte(want), 0)
		}
		must.OK(t, errors.Join(err, f.Close()))
		if got, err := vfs.ReadFile(fsys, name); err != nil || string(got) != want {
			t.Errorf("%d bytes came back as %d, %v", len(want), len(got), err)
		}
	}
	if _, err := vfs.ReadFile(fsys, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for _, op := range []errfs.Op{errfs.Open, errfs.Read} {
		fault := fsys.Add(errfs.Rule{Ops: op, Path: "long", Err: syscall.EIO})
		if _, err := vfs.ReadFile(fsys, "long"); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s fails: %v", op, err)
		}
		fault.Off()
	}
}
