package terminal

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A pipe is gone when its reader has closed it; everything else is there.
func TestGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if Gone(w) || Gone(open(t, os.DevNull)) || Gone(&bytes.Buffer{}) || Gone((*os.File)(nil)) {
		t.Error("what is read is taken for gone")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if !Gone(w) {
		t.Error("a pipe that nobody reads is taken for read")
	}
}

// Devices, pipes and files are no terminals; the user's side of a pseudo-terminal is one.
func TestIs(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for name, stream := range map[string]any{"/dev/null": open(t, os.DevNull), "/dev/zero": open(t, "/dev/zero"), "a pipe": w,
		"a buffer": &bytes.Buffer{}, "nothing": nil, "no file": (*os.File)(nil)} {
		if Is(stream) {
			t.Errorf("%s is taken for a terminal", name)
		}
	}
	master := open(t, "/dev/ptmx")
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	n, err := unix.IoctlGetUint32(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	if name := fmt.Sprintf("/dev/pts/%d", n); !Is(open(t, name)) {
		t.Errorf("%s is not taken for a terminal", name)
	}
}
