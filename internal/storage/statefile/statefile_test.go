package statefile

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

const name = "/d/state"

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func disk(t testing.TB, seed uint64) *crashfs.FS {
	t.Helper()
	f := crashfs.New(seed)
	ok(t, f.MkdirAll("/d"))
	ok(t, f.SyncDir("/"))
	return f
}

func TestRoundTrip(t *testing.T) {
	f := disk(t, 1)
	if _, err := Read(f, name, "test", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	for _, payload := range []string{"", "one", "line\nline\n", strings.Repeat("x", 100_000)} {
		ok(t, Write(f, name, "test", 3, []byte(payload)))
		got, err := Read(f, name, "test", 3)
		if err != nil || string(got) != payload {
			t.Errorf("%d bytes came back as %d, %v", len(payload), len(got), err)
		}
	}
	if _, err := Read(f, name, "test", 2); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer version: %v", err)
	}
	if _, err := Read(f, name, "other", 3); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another kind: %v", err)
	}
}

func TestFormatIsFixed(t *testing.T) {
	if got := string(header("identity", 1, []byte("payload"))); got != "chronik-identity 1 7 f4e36970\n" {
		t.Errorf("%q", got)
	}
}

// Read detects any changed, missing or added byte.
func TestAnyDamageIsDetected(t *testing.T) {
	payload := []byte("some payload")
	whole := append(header("test", 1, payload), payload...)
	for i := range whole {
		for _, b := range [][]byte{slices.Delete(slices.Clone(whole), i, i+1), slices.Insert(slices.Clone(whole), i, 'x'), whole[:i]} {
			if got, err := parse(b, name, "test", 1); err == nil && !bytes.Equal(b, whole) {
				t.Errorf("at %d: %q reads as %q", i, b, got)
			}
		}
		b := slices.Clone(whole)
		b[i] ^= 1
		if _, err := parse(b, name, "test", 1); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer) {
			t.Errorf("bit at %d: %v", i, err)
		}
	}
}

// If the process dies at any call, with or without a power loss, the file has the content
// acknowledged last or the content being written.
func TestCrashAtEveryCall(t *testing.T) {
	for at := 1; ; at++ {
		f := disk(t, uint64(at))
		f.CrashDuring(f.Ops() + at)
		acked, next := "", ""
		for _, next = range []string{"one", "two", "three"} {
			if Write(f, name, "test", 1, []byte(next)) != nil {
				break
			}
			acked = next
		}
		images := []*crashfs.FS{f.KillImage(1)}
		for _, m := range crashfs.Modes() {
			for seed := range uint64(10) {
				images = append(images, f.PowerLossImage(m, seed))
			}
		}
		for _, image := range images {
			got, err := Read(image, name, "test", 1)
			if errors.Is(err, fs.ErrNotExist) && acked == "" {
				continue
			}
			if err != nil || string(got) != acked && string(got) != next {
				t.Fatalf("crash at call %d: %q, %v; acknowledged %q", at, got, err, acked)
			}
			ok(t, Write(image, name, "test", 1, []byte("again")))
		}
		if !f.Crashed() {
			return
		}
	}
}

// Every failed call returns an error and leaves a readable file.
func TestAnyFailedCall(t *testing.T) {
	for from := 1; ; from++ {
		f := errfs.New(disk(t, 1))
		ok(t, Write(f, name, "test", 1, []byte("old")))
		fault := f.Add(errfs.Rule{Ops: errfs.Any &^ errfs.Remove, From: from, Count: 1, Err: syscall.EIO})
		err := Write(f, name, "test", 1, []byte("new"))
		if (err != nil) != (fault.Hits() > 0) {
			t.Errorf("call %d: %v", from, err)
		}
		if fault.Hits() == 0 {
			return
		}
		fault.Off()
		if got, err := Read(f, name, "test", 1); err != nil || string(got) != "old" && string(got) != "new" {
			t.Errorf("call %d: %q, %v", from, got, err)
		}
	}
}

func TestReadRejectsAHugeFile(t *testing.T) {
	m := vfs.Memory()
	ok(t, m.MkdirAll("/d"))
	f, err := m.Create(name)
	ok(t, err)
	ok(t, f.Truncate(maxSize+1))
	ok(t, f.Close())
	if _, err := Read(m, name, "test", 1); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(append(header("test", 1, []byte("x")), 'x'))
	f.Add([]byte("chronik-test 1 1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		payload, err := parse(b, name, "test", 1)
		if err == nil && !bytes.Equal(b, append(header("test", 1, payload), payload...)) {
			t.Errorf("%q was accepted", b)
		}
	})
}

// A cache needs no sync. After a power loss Read returns its whole content, or reports that the
// file is missing or damaged.
func TestCacheIsWholeOrRejected(t *testing.T) {
	payload := bytes.Repeat([]byte("cache"), 2000)
	for seed := range uint64(20) {
		f := disk(t, seed)
		errs := errfs.New(f)
		syncs := errs.Add(errfs.Rule{Ops: errfs.Datasync | errfs.SyncDir, Before: func(errfs.Call) {}})
		ok(t, WriteCache(errs, name, "test", 1, []byte("old")))
		ok(t, f.SyncDir("/d"))
		ok(t, WriteCache(errs, name, "test", 1, payload))
		if got, err := Read(f, name, "test", 1); err != nil || !bytes.Equal(got, payload) || syncs.Hits() > 0 {
			t.Fatalf("%d bytes, %d syncs, %v", len(got), syncs.Hits(), err)
		}
		for _, m := range crashfs.Modes() {
			got, err := Read(f.PowerLossImage(m, seed), name, "test", 1)
			refused := errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist)
			if !refused && (err != nil || !bytes.Equal(got, payload) && string(got) != "old") {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		}
	}
}
