// Package objecttest tests the behavior that all implementations of objects.Store have in common.
//
// A store that passes Run can replace another one as long as no fault is injected. The tests of the
// stores call it; it knows none of them.
package objecttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// Run tests the stores that open returns, each of them empty.
func Run(t *testing.T, open func(t *testing.T) objects.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, objects.Store)
	}{
		{"WhatWasPutIsRead", put},
		{"APutIsRepeated", putAgain},
		{"AnErrorOfTheBodyIsThatOfThePut", bodyFails},
		{"ReadsEndWithEOF", reads},
		{"AMissingObjectIsNotFound", missing},
		{"ACopyIsAnObject", copies},
		{"ListsAreComplete", lists},
		{"ManyObjectsAreListed", many},
		{"AListEndsWithTheErrorOfItsCaller", listFails},
		{"DeletesAreRepeated", deletes},
		{"NamesAreChecked", names},
		{"AContextEndsACall", ended},
		{"CallsAtTheSameTime", concurrent},
		{"WholeObjects", whole},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// Bytes returns n bytes that a seed determines.
func Bytes(n int, seed uint64) []byte {
	p := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// Put puts an object, and ends the test if that fails.
func Put(t testing.TB, s objects.Store, name string, content []byte) {
	t.Helper()
	must.OK(t, s.Put(context.Background(), name, bytes.NewReader(content)))
}

// Get returns an object, and ends the test if that fails.
func Get(t testing.TB, s objects.Store, name string) []byte {
	t.Helper()
	var all []byte
	p := make([]byte, 5<<20)
	for {
		n, err := s.Get(context.Background(), name, int64(len(all)), p)
		all = append(all, p[:n]...)
		if errors.Is(err, io.EOF) {
			return all
		}
		must.OK(t, err)
	}
}

// List returns the sizes of the objects below a prefix, by name.
func List(t testing.TB, s objects.Store, prefix string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	must.OK(t, s.List(context.Background(), prefix, func(in objects.Info) error {
		all[in.Name] = in.Size
		return nil
	}))
	return all
}

func put(t *testing.T, s objects.Store) {
	for i, n := range []int{1, 1000, 64 << 10, 1<<20 + 1, 6 << 20} {
		name := fmt.Sprintf("log/%d/object", n)
		want := Bytes(n, uint64(i))
		Put(t, s, name, want)
		if got := Get(t, s, name); !bytes.Equal(got, want) {
			t.Errorf("an object of %d bytes was read as one of %d", n, len(got))
		}
	}
}

func putAgain(t *testing.T, s objects.Store) {
	want := Bytes(3000, 1)
	for range 3 {
		Put(t, s, "a/b", want)
	}
	if got := Get(t, s, "a/b"); !bytes.Equal(got, want) {
		t.Error("the object differs")
	}
	if got := List(t, s, ""); len(got) != 1 || got["a/b"] != 3000 {
		t.Errorf("the store has %v", got)
	}
}

// bodyFails: a Put fails if the bytes cannot be read, and leaves no object.
func bodyFails(t *testing.T, s objects.Store) {
	for _, size := range []int64{1000, 6 << 20} {
		err := s.Put(context.Background(), "a/b", broken{size})
		if !errors.Is(err, errBroken) {
			t.Errorf("a body of %d bytes that cannot be read: %v", size, err)
		}
	}
	for name := range List(t, s, "") {
		if !objects.Unfinished(name) {
			t.Errorf("the store has %s", name)
		}
	}
}

// broken is a body of whose bytes only half can be read.
type broken struct{ size int64 }

var errBroken = errors.New("the body is broken")

func (b broken) Size() int64 { return b.size }

func (b broken) ReadAt(p []byte, off int64) (int, error) {
	if n := b.size/2 - off; n < int64(len(p)) {
		return int(max(n, 0)), errBroken
	}
	return len(p), nil
}

func reads(t *testing.T, s objects.Store) {
	want := Bytes(1000, 2)
	Put(t, s, "x", want)
	for _, c := range []struct {
		off, len, n int
		eof         bool
	}{
		{0, 10, 10, false}, {0, 1000, 1000, false}, {990, 10, 10, false}, {990, 11, 10, true}, {0, 2000, 1000, true},
		{1000, 1, 0, true}, {5000, 5, 0, true}, {999, 1, 1, false},
	} {
		p := make([]byte, c.len)
		n, err := s.Get(context.Background(), "x", int64(c.off), p)
		if n != c.n || !c.eof && err != nil || c.eof && !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes at %d: read %d, %v; want %d, the end: %v", c.len, c.off, n, err, c.n, c.eof)
		} else if !bytes.Equal(p[:n], want[min(c.off, 1000):min(c.off, 1000)+n]) {
			t.Errorf("%d bytes at %d differ", c.len, c.off)
		}
	}
	if _, err := s.Get(context.Background(), "x", -1, make([]byte, 1)); !errors.Is(err, objects.ErrRefused) {
		t.Errorf("a read before the beginning: %v", err)
	}
}

func missing(t *testing.T, s objects.Store) {
	ctx := context.Background()
	Put(t, s, "a/b/c", []byte("x"))
	for _, name := range []string{"b", "a/c", "a/b/d", "x/y/z"} {
		if n, err := s.Get(ctx, name, 0, make([]byte, 1)); n != 0 || !errors.Is(err, objects.ErrNotFound) {
			t.Errorf("get %s: %d, %v", name, n, err)
		}
		if err := s.Copy(ctx, objects.Info{Name: name}, "copy"); !errors.Is(err, objects.ErrNotFound) {
			t.Errorf("copy %s: %v", name, err)
		}
	}
}

func copies(t *testing.T, s objects.Store) {
	for i, n := range []int{1, 2 << 20} {
		want := Bytes(n, 3)
		Put(t, s, "from/x", want)
		to := fmt.Sprintf("to/%d/y", i)
		for range 2 {
			must.OK(t, s.Copy(context.Background(), objects.Info{Name: "from/x", Size: int64(n)}, to))
		}
		must.OK(t, s.Delete(context.Background(), "from/x"))
		if got := Get(t, s, to); !bytes.Equal(got, want) {
			t.Errorf("the copy of %d bytes has %d", n, len(got))
		}
	}
}

func lists(t *testing.T, s objects.Store) {
	all := map[string]int64{"a/b/c": 1, "a/b/d": 2, "a/b-c/d": 3, "a/bc": 4, "ab/x": 5, "x": 6, "a/b/0.0/e": 7}
	for name, n := range all {
		Put(t, s, name, Bytes(int(n), 4))
	}
	for _, prefix := range []string{"", "a/", "a/b/", "a/b/0.0/", "ab/", "b/", "x/", "a/bc/"} {
		want := maps.Clone(all)
		maps.DeleteFunc(want, func(name string, _ int64) bool { return !strings.HasPrefix(name, prefix) })
		if got := List(t, s, prefix); !maps.Equal(got, want) {
			t.Errorf("below %q: %v, want %v", prefix, got, want)
		}
	}
	for _, prefix := range []string{"a", "/", "a//", "../"} {
		if err := s.List(context.Background(), prefix, func(objects.Info) error { return nil }); !errors.Is(err, objects.ErrRefused) {
			t.Errorf("a list below %q: %v", prefix, err)
		}
	}
}

// many has more objects than a page of a bucket's list, which are 1000.
func many(t *testing.T, s objects.Store) {
	want := map[string]int64{}
	var wg sync.WaitGroup
	for i := range 7 {
		for k := range 172 {
			want[fmt.Sprintf("many/%d/%d", i, k)] = 1
		}
		wg.Go(func() {
			for k := range 172 {
				if err := s.Put(context.Background(), fmt.Sprintf("many/%d/%d", i, k), bytes.NewReader([]byte("x"))); err != nil {
					t.Errorf("put: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	Put(t, s, "other/x", []byte("x"))
	if got := List(t, s, "many/"); !maps.Equal(got, want) {
		t.Errorf("%d of %d objects are listed", len(got), len(want))
	}
}

func listFails(t *testing.T, s objects.Store) {
	Put(t, s, "a/x", []byte("x"))
	Put(t, s, "b/x", []byte("x"))
	enough, calls := errors.New("enough"), 0
	err := s.List(context.Background(), "", func(objects.Info) error {
		calls++
		return enough
	})
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("%d calls: %v", calls, err)
	}
}

func deletes(t *testing.T, s objects.Store) {
	ctx := context.Background()
	Put(t, s, "a/b/c/d", []byte("x"))
	Put(t, s, "a/e", []byte("y"))
	for range 2 {
		must.OK(t, s.Delete(ctx, "a/b/c/d"))
	}
	must.OK(t, s.Delete(ctx, "never/was"))
	if got := List(t, s, ""); len(got) != 1 || got["a/e"] != 1 {
		t.Errorf("what is left: %v", got)
	}
	if _, err := s.Get(ctx, "a/b/c/d", 0, make([]byte, 1)); !errors.Is(err, objects.ErrNotFound) {
		t.Errorf("get of a deleted object: %v", err)
	}
	Put(t, s, "a/b/c/d", []byte("again"))
	if got := Get(t, s, "a/b/c/d"); string(got) != "again" {
		t.Errorf("%q", got)
	}
}

func names(t *testing.T, s objects.Store) {
	ctx := context.Background()
	x := objects.Info{Name: "x"}
	Put(t, s, "x", []byte("x"))
	for _, name := range []string{"", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "a/.b", "A", "a b", "ä", "a\\b", "a\x00",
		strings.Repeat("a", 201), strings.Repeat("a/", 400) + "a"} {
		for call, err := range map[string]error{
			"put":         s.Put(ctx, name, bytes.NewReader([]byte("x"))),
			"copy to":     s.Copy(ctx, x, name),
			"copy from":   s.Copy(ctx, objects.Info{Name: name}, "y"),
			"delete":      s.Delete(ctx, name),
			"a read from": second(s.Get(ctx, name, 0, make([]byte, 1))),
		} {
			if !errors.Is(err, objects.ErrRefused) {
				t.Errorf("%s %q: %v", call, name, err)
			}
		}
	}
	if err := s.Put(ctx, "empty", bytes.NewReader(nil)); !errors.Is(err, objects.ErrRefused) {
		t.Errorf("put of an empty object: %v", err)
	}
	left := objects.UnfinishedName("x", "1")
	if err := s.Put(ctx, left, bytes.NewReader([]byte("x"))); !errors.Is(err, objects.ErrRefused) {
		t.Errorf("put of the name of an unfinished object: %v", err)
	}
	must.OK(t, s.Delete(ctx, left)) // lists may have such names
	long := strings.Repeat("a", 200) + "/" + strings.Repeat("0", 200) + "/" + strings.Repeat("-", 200)
	Put(t, s, long, []byte("long"))
	if got := Get(t, s, long); string(got) != "long" {
		t.Errorf("%q", got)
	}
}

func second(_ int, err error) error { return err }

func ended(t *testing.T, s objects.Store) {
	Put(t, s, "x", []byte("x"))
	why := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	for call, err := range map[string]error{
		"put":    s.Put(ctx, "y", bytes.NewReader([]byte("y"))),
		"copy":   s.Copy(ctx, objects.Info{Name: "x"}, "z"),
		"delete": s.Delete(ctx, "x"),
		"get":    second(s.Get(ctx, "x", 0, make([]byte, 1))),
		"list":   s.List(ctx, "", func(objects.Info) error { return nil }),
	} {
		if !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if got := List(t, s, ""); len(got) != 1 || got["x"] != 1 {
		t.Errorf("the store has %v", got)
	}
}

func concurrent(t *testing.T, s objects.Store) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for round := range 10 {
				name := fmt.Sprintf("d%d/e/%d", round%3, i)
				want := Bytes(100*i+1, uint64(i))
				if err := s.Put(context.Background(), name, bytes.NewReader(want)); err != nil {
					t.Errorf("put: %v", err)
					return
				}
				p := make([]byte, len(want)+1)
				if n, err := s.Get(context.Background(), name, 0, p); !errors.Is(err, io.EOF) || !bytes.Equal(p[:n], want) {
					t.Errorf("get: %d of %d bytes, %v", n, len(want), err)
				}
				if err := s.Delete(context.Background(), name); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if got := List(t, s, ""); len(got) != 0 {
		t.Errorf("the store has %v", slices.Sorted(maps.Keys(got)))
	}
}

func whole(t *testing.T, s objects.Store) {
	ctx := context.Background()
	for i, n := range []int{0, 1, 64<<10 - objects.TrailerSize, 64<<10 - objects.TrailerSize + 1, 3 << 20} {
		name := fmt.Sprintf("whole/%d", n)
		want := Bytes(n, uint64(i))
		must.OK(t, objects.Write(ctx, s, name, objects.Pack, objects.Seal(slices.Clone(want), objects.Pack, 2)))
		got, version, err := objects.Read(ctx, s, name, objects.Pack, 2, int64(n+objects.TrailerSize))
		if err != nil || version != 2 || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %d, version %d, %v", n, len(got), version, err)
		}
		if _, _, err := objects.Read(ctx, s, name, objects.Pack, 2, int64(n+objects.TrailerSize-1)); !errors.Is(err, objects.ErrDamaged) {
			t.Errorf("%d bytes, above the limit: %v", n, err)
		}
	}
	if _, _, err := objects.Read(ctx, s, "none", objects.Pack, 1, 100); !errors.Is(err, objects.ErrNotFound) {
		t.Errorf("a missing object: %v", err)
	}
}
