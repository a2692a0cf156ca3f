//go:build linux || darwin

package vfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// kernel is a pwritev that writes at most limit bytes, and is interrupted as often as configured.
type kernel struct {
	t      *testing.T
	got    []byte
	limit  int
	signal int // every signal-th call is interrupted; 0: none
	fail   int // the fail-th call fails with EIO; 0: none
	calls  int
}

func (k *kernel) pwritev(iov [][]byte, done int64) (int, error) {
	k.calls++
	if len(iov) > iovMax {
		k.t.Errorf("%d pieces in one call", len(iov))
	}
	if int(done) != len(k.got) {
		k.t.Errorf("call %d at %d, %d bytes are written", k.calls, done, len(k.got))
	}
	if k.signal > 0 && k.calls%k.signal == 0 {
		return -1, unix.EINTR
	}
	if k.calls == k.fail {
		return -1, unix.EIO
	}
	all := bytes.Join(iov, nil)
	all = all[:min(len(all), k.limit)]
	k.got = append(k.got, all...)
	return len(all), nil
}

func pieces(n int) [][]byte {
	bufs := make([][]byte, n)
	for i := range bufs {
		bufs[i] = bytes.Repeat([]byte{byte(i)}, i%5)
	}
	return bufs
}

func TestWriteVecContinuesAfterShortWritesAndSignals(t *testing.T) {
	for _, k := range []*kernel{{limit: 1}, {limit: 3, signal: 2}, {limit: 7, signal: 3}, {limit: 1 << 20}, {limit: 1 << 20, signal: 2}} {
		k.t = t
		bufs := pieces(3000)
		want := bytes.Join(bufs, nil)
		n, err := writeVec(bufs, k.pwritev)
		if n != len(want) || err != nil || !bytes.Equal(k.got, want) {
			t.Errorf("limit %d, signal %d: %d of %d bytes, %v", k.limit, k.signal, n, len(want), err)
		}
	}
}

func TestWriteVecCountsBytesBeforeAnError(t *testing.T) {
	k := &kernel{t: t, limit: 10, fail: 4}
	if n, err := writeVec(pieces(100), k.pwritev); n != 30 || !errors.Is(err, unix.EIO) {
		t.Errorf("%d, %v", n, err)
	}
	k = &kernel{t: t, limit: 0}
	if n, err := writeVec(pieces(100), k.pwritev); n != 0 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a kernel that writes nothing and reports nothing: %d, %v", n, err)
	}
}

// Allocate calls extend on a file system that cannot reserve.
func TestExtendNeverTruncates(t *testing.T) {
	h, err := OS().Create(t.TempDir() + "/a")
	must.OK(t, err)
	defer h.Close()
	f, ok := h.(*osFile)
	if !ok {
		t.Fatalf("%T", h)
	}
	for _, c := range []struct{ to, want int64 }{{10, 10}, {5, 10}, {10, 10}, {11, 11}} {
		must.OK(t, f.extend(c.to))
		if size, err := f.Size(); size != c.want || err != nil {
			t.Errorf("extend(%d): size %d, want %d (%v)", c.to, size, c.want, err)
		}
	}
}

// What is no regular file is not opened: its bytes are not durable.
func TestOpenRefusesDevices(t *testing.T) {
	for _, fsys := range []FS{OS(), ReadOnly(OS())} {
		if f, err := fsys.Open(os.DevNull); f != nil || !errors.Is(err, errNotRegular) {
			t.Errorf("%v, %v", f, err)
		}
	}
}
