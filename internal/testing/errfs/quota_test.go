package errfs

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/vfstest"
	"github.com/chronik-io/chronik/internal/vfs"
)

func free(t testing.TB, f *FS) int {
	t.Helper()
	available, total, err := f.Free("/d")
	ok(t, err)
	if available > total {
		t.Errorf("%d of %d bytes are free", available, total)
	}
	return int(available)
}

func TestAFullDiskAcceptsWhatFits(t *testing.T) {
	f := memory(t)
	ok(t, f.MkdirAll("/d/sub"))
	vfstest.Put(t, f, "/d/sub/before", strings.Repeat("x", 40))
	ok(t, f.SetQuota("/d", 100, nil))
	if got := free(t, f); got != 60 {
		t.Errorf("%d bytes are free", got)
	}
	h := create(t, f, "/d/a")
	if n, err := h.WriteAt(make([]byte, 50), 0); n != 50 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := h.WriteAt([]byte("x"), 3); n != 1 || err != nil { // overwriting neither uses nor frees space
		t.Fatal(n, err)
	}
	n, err := h.WriteVecAt([][]byte{[]byte("01234"), []byte("56789"), []byte("abc")}, 50)
	if n != 10 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write that fits in part: %d, %v", n, err)
	}
	if size, err := h.Size(); size != 60 || err != nil {
		t.Errorf("size %d, %v", size, err)
	}
	if n, err := h.WriteAt([]byte("x"), 60); n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write to a full disk: %d, %v", n, err)
	}
	if n, err := h.WriteAt(make([]byte, 60), 0); n != 60 || err != nil {
		t.Errorf("overwriting needs no space: %d, %v", n, err)
	}
	if got := free(t, f); got != 0 {
		t.Errorf("%d bytes are free", got)
	}
	for what, err := range map[string]error{"Truncate": h.Truncate(61), "Allocate": h.Allocate(0, 61)} {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s beyond the end: %v", what, err)
		}
	}
	if size, err := h.Size(); size != 60 || err != nil {
		t.Errorf("a rejected call extended the file: size %d, %v", size, err)
	}
}

func TestSpaceBecomesAvailable(t *testing.T) {
	f := memory(t)
	ok(t, f.SetQuota("/d", 100, syscall.EDQUOT))
	h := create(t, f, "/d/a")
	vfstest.Put(t, f, "/d/b", strings.Repeat("x", 50))
	fits := func(what string, want int) {
		t.Helper()
		n, err := h.WriteAt(make([]byte, 200), 0)
		if n != want || !errors.Is(err, syscall.EDQUOT) {
			t.Errorf("%s: %d bytes fit, want %d (%v)", what, n, want, err)
		}
	}
	fits("one other file", 50)
	ok(t, f.Remove("/d/b"))
	fits("after removing it", 100)
	ok(t, h.Truncate(10))
	vfstest.Put(t, f, "/d/b", strings.Repeat("x", 70))
	fits("after cutting this one", 30)
	ok(t, f.SetQuota("/d", 120, syscall.EDQUOT))
	fits("after raising the quota", 50)
	ok(t, f.Rename("/d/b", "/b"))
	fits("after moving the other one away", 120)
	f.NoQuota()
	if n, err := h.WriteAt(make([]byte, 200), 0); n != 200 || err != nil {
		t.Errorf("without a quota: %d, %v", n, err)
	}
}

func TestAQuotaIsForOneDirectory(t *testing.T) {
	f := memory(t)
	ok(t, f.MkdirAll("/dd"))
	ok(t, f.SetQuota("/d", 0, nil))
	vfstest.Put(t, f, "/dd/a", "x")
	vfstest.Put(t, f, "/d/empty", "")
	h := create(t, f, "/d/a")
	if _, err := h.WriteAt([]byte("x"), 0); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if available, _, err := f.Free("/dd"); available == 0 || err != nil {
		t.Errorf("the other directory: %d, %v", available, err)
	}
}

func TestConcurrentWritesDoNotShareSpace(t *testing.T) {
	f := memory(t)
	f.unlatched = true
	ok(t, f.SetQuota("/d", 1000, nil))
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "e"} {
		h := create(t, f, "/d/"+name)
		wg.Go(func() {
			for i := range int64(100) {
				if _, err := h.WriteAt(make([]byte, 7), 7*i); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if used, err := usage(f.under, "/d"); used > 1000 || used < 1000-6*4 || err != nil {
		t.Errorf("%d bytes are used, %v", used, err)
	}
}

var _ vfs.File = (*file)(nil)
