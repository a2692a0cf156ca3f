package vfs

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// A scratch file can be written and synced, and has no name.
func TestScratchLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	f, err := Scratch(dir)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	must.OK(t, err)
	if _, err := f.WriteAt([]byte("x"), 0); err != nil {
		t.Error(err)
	}
	if err := f.Datasync(); err != nil {
		t.Error(err)
	}
	if found, err := os.ReadDir(dir); err != nil || len(found) > 0 {
		t.Errorf("%v %v", found, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Scratch(dir + "/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
