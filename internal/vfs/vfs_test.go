package vfs_test

import (
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/vfstest"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestOSKeepsTheContract(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfs.OS(), t.TempDir() })
}

func TestMemoryKeepsTheContract(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		f := vfs.Memory()
		must.OK(t, f.MkdirAll("/data/dir"))
		return f, "/data/dir"
	})
}

// Names without a leading slash also work, so that tests may use short ones.
func TestMemoryAcceptsRelativeNames(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		f := vfs.Memory()
		must.OK(t, f.MkdirAll("data"))
		return f, "data"
	})
}
