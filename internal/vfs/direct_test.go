package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// Bytes written with WriteDirect read back like others, next to and over bytes written through the
// page cache, with every implementation. A closed file accepts no write.
func TestDirectWritesReadBack(t *testing.T) {
	for name, open := range map[string]func(*testing.T, string) File{
		"as the system can": func(t *testing.T, dir string) File {
			f, err := OS().Create(filepath.Join(dir, "f"))
			must.OK(t, err)
			return f
		},
		"as where the file system can't": func(t *testing.T, dir string) File {
			f, err := OS().Create(filepath.Join(dir, "f"))
			must.OK(t, err)
			f.(*osFile).noDirect.Store(true)
			return f
		},
		"in memory": func(t *testing.T, _ string) File {
			f, err := Memory().Create("/f")
			must.OK(t, err)
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, t.TempDir())
			want := make([]byte, 40*DirectBlock)
			for i, w := range []struct {
				block, blocks int
				cached        bool
			}{{0, 3, false}, {1, 1, false}, {2, 10, true}, {5, 30, false}, {7, 2, true}, {0, 40, false}, {39, 1, true}, {39, 1, false}} {
				p := DirectBuffer(w.blocks * DirectBlock)
				for j := range p {
					p[j] = byte(i + j/7)
				}
				off := w.block * DirectBlock
				var n int
				var err error
				if w.cached { // these are not in whole blocks
					p, off = p[1:len(p)-1], off+1
					n, err = f.WriteAt(p, int64(off))
				} else {
					n, err = WriteDirect(f, p, int64(off))
				}
				if n != len(p) || err != nil {
					t.Fatalf("write %d: %d bytes, %v", i, n, err)
				}
				copy(want[off:], p)
				if i%2 == 1 {
					must.OK(t, f.Datasync())
				}
				size, err := f.Size()
				must.OK(t, err)
				got := make([]byte, size)
				if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want[:size]) {
					t.Fatalf("after write %d: %v", i, err)
				}
			}
			must.OK(t, f.Close())
			if _, err := WriteDirect(f, DirectBuffer(DirectBlock), 0); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("a write to a closed file: %v", err)
			}
		})
	}
}

func TestMemoryForDirectWritesIsAligned(t *testing.T) {
	for _, n := range []int{DirectBlock, 3 * DirectBlock, 1 << 20} {
		b := DirectBuffer(n)
		if len(b) != n || cap(b) != n || uintptr(unsafe.Pointer(&b[0]))%DirectBlock != 0 {
			t.Errorf("%d bytes of %d at %p", len(b), cap(b), &b[0])
		}
	}
}
