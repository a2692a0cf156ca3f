package vfs

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// Bytes written with WriteVecUncached read back like others, before and after a sync, next to and
// over earlier bytes, whether or not the kernel supports the flag.
func TestUncachedWritesReadBack(t *testing.T) {
	for name, cached := range map[string]bool{"as the system can": false, "as where the file system can't": true} {
		t.Run(name, func(t *testing.T) {
			f, err := OS().Create(filepath.Join(t.TempDir(), "f"))
			must.OK(t, err)
			defer f.Close()
			f.(*osFile).cached.Store(cached)
			var want []byte
			for i, n := range []int{1, 4095, 4096, 70_000, 300_001, 12, 1 << 20} {
				bufs := [][]byte{bytes.Repeat([]byte{byte(i + 1)}, n), {0xff}, bytes.Repeat([]byte{byte(i + 101)}, n/2)}
				write := WriteVecUncached
				if i%3 == 2 {
					write = File.WriteVecAt
				}
				all := bytes.Join(bufs, nil)
				if got, err := write(f, bufs, int64(len(want))); err != nil || got != len(all) {
					t.Fatalf("wrote %d of %d: %v", got, len(all), err)
				}
				want = append(want, all...)
				if i%2 == 1 {
					must.OK(t, f.Datasync())
				}
				got := make([]byte, len(want))
				if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("after write %d: %v", i, err)
				}
			}
			if _, err := WriteVecUncached(f, [][]byte{{1}}, -1); err == nil {
				t.Error("a write before the file")
			}
		})
	}
}

func TestKernelVersions(t *testing.T) {
	for release, want := range map[string]bool{
		"6.16.0": true, "6.18.44-fc-v657": true, "7.0": true, "10.1-x": true,
		"6.15.9": false, "5.15.0-1-generic": false, "6": false, "": false, "weird": false, "6.x": false,
	} {
		if got := atLeast(release, 6, 16); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}
