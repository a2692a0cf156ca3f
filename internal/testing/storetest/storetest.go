// Package storetest checks that a back end keeps the promises of metadata.Store. The tests of every
// back end run it. It knows no back end, only the interface and package kv.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
)

// Open opens an empty store at revision 0 inside the test's synctest bubble. The test closes it. A
// store whose reads lag behind its transactions must be wrapped so that Txn waits for its revision.
type Open func(t *testing.T) metadata.Store

// Run runs all checks, each on a store of its own and in a synctest bubble.
func Run(t *testing.T, open Open) {
	for name, check := range map[string]func(*testing.T, metadata.Store){
		"transactions are atomic": atomic, "a conflict names its revision": conflict, "invalid transactions are refused": invalid,
		"values are copied": copies, "WaitFor ends": waitFor, "a closed store returns ErrClosed": closed,
		"watchers see every revision in order": watchers, "watchers wait and wake": wakes,
		"a canceled Next returns an existing revision": pollsFirst,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t)
				defer func() { _ = s.Close() }()
				check(t, s)
			})
		})
	}
}

func put(key, value string) metadata.Txn {
	return metadata.Txn{Put: []metadata.KV{{Key: key, Value: []byte(value)}}}
}

func mustTxn(t *testing.T, s metadata.Store, txn metadata.Txn) int64 {
	t.Helper()
	revision, err := s.Txn(context.Background(), txn)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func wantDump(t *testing.T, s metadata.Store, want string) {
	t.Helper()
	keys, revision, err := s.Range(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	got := Text(keys, revision)
	if got != want {
		t.Errorf("store holds %s, want %s", got, want)
	}
}

func atomic(t *testing.T, s metadata.Store) {
	ctx := context.Background()
	if rev := mustTxn(t, s, put("/a", "1")); rev != 1 {
		t.Fatalf("first revision %d", rev)
	}
	_, err := s.Txn(ctx, metadata.Txn{If: []metadata.Compare{{Key: "/a", ModRevision: 1}, {Key: "/b", ModRevision: 7}},
		Put: []metadata.KV{{Key: "/c"}}})
	if !errors.Is(err, metadata.ErrConflict) {
		t.Fatalf("a compare does not hold: %v", err)
	}
	mustTxn(t, s, metadata.Txn{
		If:     []metadata.Compare{{Key: "/a", ModRevision: 1}, {Key: "/b"}},
		Put:    []metadata.KV{{Key: "/b", Value: []byte("2")}, {Key: "/c", Value: []byte("3")}},
		Delete: []string{"/a", "/never"},
	})
	wantDump(t, s, "@2 /b=2@2 /c=3@2")
	if rev, err := s.Txn(ctx, metadata.Txn{If: []metadata.Compare{{Key: "/b", ModRevision: 2}}}); rev != 2 || err != nil {
		t.Errorf("a transaction that only compares: %d, %v", rev, err)
	}
	if kv, rev, err := s.Get(ctx, "/a"); kv.Key != "/a" || kv.ModRevision != 0 || rev != 2 || err != nil {
		t.Errorf("a deleted key: %+v, %d, %v", kv, rev, err)
	}
	if kvs, _, err := s.Range(ctx, "/b"); len(kvs) != 1 || err != nil {
		t.Errorf("range of a prefix: %v, %v", kvs, err)
	}
}

func conflict(t *testing.T, s metadata.Store) {
	mustTxn(t, s, put("/a", "1"))
	mustTxn(t, s, put("/a", "2"))
	old := metadata.Txn{If: []metadata.Compare{{Key: "/a", ModRevision: 1}}, Put: []metadata.KV{{Key: "/b"}}}
	_, err := s.Txn(context.Background(), old)
	var c *metadata.ConflictError
	if !errors.As(err, &c) || *c != (metadata.ConflictError{Revision: 2, Key: "/a", Found: 2, Expected: 1}) {
		t.Fatalf("the conflict is %v", err)
	}
	if err := s.WaitFor(context.Background(), c.Revision); err != nil {
		t.Error(err)
	}
}

func invalid(t *testing.T, s metadata.Store) {
	long := string(make([]byte, kv.MaxKey+1))
	for name, txn := range map[string]metadata.Txn{
		"empty key": put("", "x"), "long key": put(long, "x"), "long deleted key": {Delete: []string{long}},
		"key twice":  {Put: []metadata.KV{{Key: "/a"}}, Delete: []string{"/a"}},
		"huge value": {Put: []metadata.KV{{Key: "/a", Value: make([]byte, kv.MaxTxn)}}},
	} {
		if _, err := s.Txn(context.Background(), txn); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	wantDump(t, s, "@0")
}

func copies(t *testing.T, s metadata.Store) {
	value := []byte("1")
	mustTxn(t, s, metadata.Txn{Put: []metadata.KV{{Key: "/a", Value: value}}})
	value[0] = 'X'
	wantDump(t, s, "@1 /a=1@1")
}

func waitFor(t *testing.T, s metadata.Store) {
	ctx, cancel := context.WithCancel(context.Background())
	results := make(chan error, 1)
	wait := func(ctx context.Context, revision int64) {
		go func() { results <- s.WaitFor(ctx, revision) }()
		synctest.Wait()
	}
	wait(ctx, 1)
	cancel()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Errorf("the context ended: %v", err)
	}
	wait(context.Background(), 1)
	mustTxn(t, s, put("/a", "1"))
	if err := <-results; err != nil {
		t.Errorf("the revision came: %v", err)
	}
	wait(context.Background(), 2)
	_ = s.Close()
	if err := <-results; !errors.Is(err, metadata.ErrClosed) {
		t.Errorf("the store closed: %v", err)
	}
}

func closed(t *testing.T, s metadata.Store) {
	ctx := context.Background()
	w, err := s.Watch(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, errTxn := s.Txn(ctx, put("/a", "1"))
	_, _, errGet := s.Get(ctx, "/a")
	_, _, errRange := s.Range(ctx, "/")
	_, errWatch := s.Watch(ctx, 1)
	_, errNext := w.Next(ctx)
	for i, err := range []error{errTxn, errGet, errRange, errWatch, errNext} {
		if !errors.Is(err, metadata.ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

func next(t *testing.T, w metadata.Watcher) string {
	t.Helper()
	b, err := w.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprint(b.Revision)
	for _, e := range b.Events {
		if e.Deleted {
			out += " -" + e.Key
		} else {
			out += fmt.Sprintf(" %s=%s", e.Key, e.Value)
		}
	}
	return out
}

func watchers(t *testing.T, s metadata.Store) {
	mustTxn(t, s, put("/a", "1"))
	w, err := s.Watch(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	mustTxn(t, s, metadata.Txn{Put: []metadata.KV{{Key: "/b", Value: []byte("2")}}, Delete: []string{"/a", "/never"}})
	mustTxn(t, s, put("/b", "3"))
	for _, want := range []string{"1 /a=1", "2 /b=2 -/a", "3 /b=3"} {
		if got := next(t, w); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func wakes(t *testing.T, s metadata.Store) {
	results := make(chan error, 3)
	follow := func(ctx context.Context) metadata.Watcher {
		w, err := s.Watch(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, err := w.Next(ctx); results <- err }()
		synctest.Wait()
		return w
	}
	ctx, cancel := context.WithCancel(context.Background())
	follow(ctx)
	cancel()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled Next: %v", err)
	}
	w := follow(context.Background())
	w.Close()
	if err := <-results; !errors.Is(err, metadata.ErrClosed) {
		t.Errorf("a closed watcher: %v", err)
	}
	follow(context.Background())
	mustTxn(t, s, put("/a", "1"))
	if err := <-results; err != nil {
		t.Errorf("a watcher with a pending batch: %v", err)
	}
}

// pollsFirst checks what the applier relies on to collect what is waiting.
func pollsFirst(t *testing.T, s metadata.Store) {
	mustTxn(t, s, put("/a", "1"))
	ctx, cancel := context.WithCancel(context.Background())
	w, err := s.Watch(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if b, err := w.Next(ctx); b.Revision != 1 || err != nil {
		t.Errorf("a revision that is there: %+v, %v", b, err)
	}
	if _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("none is there: %v", err)
	}
}
