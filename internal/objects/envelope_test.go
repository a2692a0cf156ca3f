package objects_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFormatIsFixed(t *testing.T) {
	const want = "616263" + "6368726f6e696b4f" + "03" + "01" + "0000" + "0300000000000000" + "b73f4b36" + "aaf85dd5"
	if got := hex.EncodeToString(objects.Seal([]byte("abc"), objects.Pack, 1)); got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// No byte of an object can change, and none can be missing or added, without being noticed.
func TestEveryChangeOfAnObjectIsFound(t *testing.T) {
	sealed := objects.Seal([]byte("some content"), objects.Index, 3)
	if content, version, err := objects.Open(sealed, objects.Index, 3); err != nil || version != 3 || string(content) != "some content" {
		t.Fatalf("%q, version %d, %v", content, version, err)
	}
	for i := range sealed {
		for bit := range 8 {
			b := bytes.Clone(sealed)
			b[i] ^= 1 << bit
			if _, _, err := objects.Open(b, objects.Index, 255); !errors.Is(err, objects.ErrDamaged) {
				t.Errorf("bit %d of byte %d: %v", bit, i, err)
			}
		}
		if _, _, err := objects.Open(sealed[:i], objects.Index, 3); !errors.Is(err, objects.ErrDamaged) {
			t.Errorf("%d bytes: %v", i, err)
		}
		if _, _, err := objects.Open(sealed[i+1:], objects.Index, 3); !errors.Is(err, objects.ErrDamaged) {
			t.Errorf("without the first %d bytes: %v", i+1, err)
		}
	}
	if _, _, err := objects.Open(append(bytes.Clone(sealed), 0), objects.Index, 3); !errors.Is(err, objects.ErrDamaged) {
		t.Errorf("one byte more: %v", err)
	}
	if _, _, err := objects.Open(sealed, objects.Index, 2); !errors.Is(err, objects.ErrNewer) {
		t.Errorf("a newer version: %v", err)
	}
	if _, _, err := objects.Open(sealed, objects.Pack, 3); !errors.Is(err, objects.ErrDamaged) {
		t.Errorf("another kind: %v", err)
	}
	if _, _, err := objects.Open(objects.Seal(nil, objects.Pack, 0), objects.Pack, 3); !errors.Is(err, objects.ErrDamaged) {
		t.Errorf("version 0: %v", err)
	}
}

func TestWhatWasSealedIsOpened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "content")
		kind := objects.Kind(rapid.IntRange(1, 4).Draw(t, "kind"))
		version := rapid.ByteRange(1, 255).Draw(t, "version")
		got, v, err := objects.Open(objects.Seal(slices.Clone(want), kind, version), kind, version)
		if err != nil || v != version || !bytes.Equal(got, want) {
			t.Fatalf("%q, version %d, %v", got, v, err)
		}
	})
}

func FuzzOpen(f *testing.F) {
	f.Add(objects.Seal([]byte("content"), objects.Log, 1))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		content, version, err := objects.Open(b, objects.Log, 1)
		if err != nil {
			return
		}
		if !bytes.Equal(objects.Seal(bytes.Clone(content), objects.Log, version), b) {
			t.Errorf("%q was opened", b)
		}
	})
}

func store(t *testing.T) *faultstore.Store {
	t.Helper()
	fsys := vfs.Memory()
	must.OK(t, fsys.MkdirAll("/store"))
	s, err := dirstore.Open(fsys, "/store")
	must.OK(t, err)
	return faultstore.New(s)
}

// What is read damaged or truncated is never returned, and what is damaged in memory never put.
func TestDamageIsFoundAtBothEnds(t *testing.T) {
	s, ctx := store(t), context.Background()
	sealed := objects.Seal(bytes.Repeat([]byte("content "), 20000), objects.Index, 1)
	broken := bytes.Clone(sealed)
	broken[77] ^= 4
	if err := objects.Write(ctx, s, "x", objects.Index, broken); !errors.Is(err, objects.ErrDamaged) || s.Calls(faultstore.Any) != 0 {
		t.Errorf("a damaged object: %v, %d calls", err, s.Calls(faultstore.Any))
	}
	must.OK(t, objects.Write(ctx, s, "x", objects.Index, sealed))
	for what, alter := range map[string]func(faultstore.Call, []byte) []byte{
		"a bit":        func(_ faultstore.Call, b []byte) []byte { b[len(b)/2] ^= 8; return b },
		"the end":      func(_ faultstore.Call, b []byte) []byte { return b[:len(b)-1] },
		"all bytes":    func(_ faultstore.Call, b []byte) []byte { return nil },
		"a wrong page": func(_ faultstore.Call, b []byte) []byte { copy(b, make([]byte, 4096)); return b },
	} {
		fault := s.Add(faultstore.Rule{Ops: faultstore.Get, Alter: alter})
		if _, _, err := objects.Read(ctx, s, "x", objects.Index, 1, 1<<20); !errors.Is(err, objects.ErrDamaged) {
			t.Errorf("%s is altered: %v", what, err)
		}
		fault.Off()
	}
	if content, _, err := objects.Read(ctx, s, "x", objects.Index, 1, 1<<20); err != nil || len(content) != 160000 {
		t.Errorf("%d bytes, %v", len(content), err)
	}
}

func TestNoncesAreParsed(t *testing.T) {
	n := objects.NewNonce()
	if got, err := objects.ParseNonce(n.String()); err != nil || got != n || n == objects.NewNonce() {
		t.Errorf("%v, %v", got, err)
	}
	for _, s := range []string{"", n.String()[1:], n.String() + "0", strings.Repeat("g", 32), strings.Repeat("A", 32)} {
		if got, err := objects.ParseNonce(s); err == nil {
			t.Errorf("%q was parsed as %v", s, got)
		}
	}
}
