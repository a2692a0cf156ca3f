package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// sockets returns two connected sockets. The first does not block.
func sockets(t *testing.T) (from, to int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(pair[0], true)
	}
	must.OK(t, err)
	t.Cleanup(func() { _ = errors.Join(unix.Close(pair[0]), unix.Close(pair[1])) })
	return pair[0], pair[1]
}

func TestSendToSendsARangeOfAFile(t *testing.T) {
	f, err := vfs.OS().Create(t.TempDir() + "/f")
	must.OK(t, err)
	data := make([]byte, 3*os.Getpagesize()+10)
	for i := range data {
		data[i] = byte(i + i>>8)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if !vfs.CanSend(f) {
		t.Fatal("a file of the system can't be sent")
	}
	from, to := sockets(t)
	got := make([]byte, len(data))
	for _, c := range [][3]int{{0, 1, 1}, {5, 5000, 5000}, {len(data) - 3, 10, 3}, {len(data), 10, 0}, {len(data) + 5, 1, 0}} {
		n, err := vfs.SendTo(from, f, int64(c[0]), c[1])
		if n != c[2] || err != nil {
			t.Errorf("%d bytes from %d on: %d, %v", c[1], c[0], n, err)
			continue
		}
		for at := 0; at < n; {
			k, err := unix.Read(to, got[at:n])
			if err != nil || k == 0 {
				t.Fatal(k, err)
			}
			at += k
		}
		if n > 0 && !bytes.Equal(got[:n], data[c[0]:c[0]+n]) {
			t.Errorf("%d bytes from %d on: others", c[1], c[0])
		}
	}
	for err = nil; err == nil; { // a socket that is full
		_, err = vfs.SendTo(from, f, 0, len(data))
	}
	if err != unix.EAGAIN { //nolint:errorlint // not wrapped, as it says
		t.Errorf("full: %v", err)
	}
	must.OK(t, f.Close())
	if n, err := vfs.SendTo(from, f, 0, 1); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %d, %v", n, err)
	}
	if vfs.Cached(f, 0, 1) {
		t.Error("a closed file is in memory")
	}
}

func TestMemoryCannotSend(t *testing.T) {
	f, err := vfs.Memory().Create("f")
	must.OK(t, err)
	if _, err := f.WriteAt([]byte("data"), 0); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if n, err := vfs.SendTo(0, f, 0, 4); n != 0 || !errors.Is(err, errors.ErrUnsupported) || vfs.CanSend(f) || vfs.Cached(f, 0, 4) {
		t.Errorf("%d, %v", n, err)
	}
}
