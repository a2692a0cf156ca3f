package vfs_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// For any position and length, Fill returns the bytes of the file up to Size, and memory for no
// more than the longest request.
func TestWindowReadsWhatTheFileHolds(t *testing.T) {
	const size, step = 10_000, 100
	rng := rand.New(rand.NewPCG(1, 1))
	content := make([]byte, size+50)
	for i := range content {
		content[i] = byte(rng.Uint32())
	}
	fsys := vfs.Memory()
	must.OK(t, vfs.WriteFile(fsys, "f", content, false))
	f, err := fsys.Open("f")
	must.OK(t, err)
	w := vfs.Window{File: f, Size: size, Step: step}
	longest := int64(step)
	for range 2000 {
		pos, n := rng.Int64N(size+100), rng.Int64N(300)
		p, err := w.Fill(pos, n)
		n = max(min(n, size-pos), 0)
		longest = max(longest, n)
		switch {
		case err != nil || int64(len(p)) < n:
			t.Fatalf("Fill(%d, %d): %d bytes, %v", pos, n, len(p), err)
		case n > 0 && (pos+int64(len(p)) > size || !bytes.Equal(p, content[pos:pos+int64(len(p))])):
			t.Fatalf("Fill(%d, %d) returns other bytes", pos, n)
		case int64(cap(w.Buf)) > longest:
			t.Fatalf("a buffer of %d bytes, the longest request has %d", cap(w.Buf), longest)
		}
	}
}
