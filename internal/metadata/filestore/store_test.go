package filestore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/vfs/crashfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store and closes it at the end of the test, unless the test has done so.
func open(t testing.TB, fsys vfs.FS, change ...func(*Options)) *Store {
	t.Helper()
	opts := Options{FS: fsys, Dir: "/m", Log: zaptest.NewLogger(t)}
	for _, c := range change {
		c(&opts)
	}
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(key, value string) metadata.Txn {
	return metadata.Txn{Put: []metadata.KV{{Key: key, Value: []byte(value)}}}
}

func mustTxn(t testing.TB, s *Store, txn metadata.Txn) int64 {
	t.Helper()
	rev, err := s.Txn(context.Background(), txn)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// dump returns a store's content and revision as text.
func dump(t testing.TB, s metadata.Store) string {
	t.Helper()
	kvs, rev, err := s.Range(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	return text(kvs, rev)
}

func text(kvs []metadata.KV, rev int64) string {
	out := fmt.Sprintf("@%d", rev)
	for _, kv := range kvs {
		out += fmt.Sprintf(" %s=%s@%d", kv.Key, kv.Value, kv.ModRevision)
	}
	return out
}

func wantDump(t testing.TB, s metadata.Store, want string) {
	t.Helper()
	if got := dump(t, s); got != want {
		t.Errorf("store holds %s, want %s", got, want)
	}
}

func TestTransactionsAreAtomic(t *testing.T) {
	ctx := context.Background()
	s := open(t, vfs.Memory())
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
	if kv, rev, err := s.Get(ctx, "/a"); kv.ModRevision != 0 || rev != 2 || err != nil {
		t.Errorf("a deleted key: %+v, %d, %v", kv, rev, err)
	}
	if kvs, _, err := s.Range(ctx, "/b"); len(kvs) != 1 || err != nil {
		t.Errorf("range of a prefix: %v, %v", kvs, err)
	}
}

func TestInvalidTransactionsAreRefused(t *testing.T) {
	s := open(t, vfs.Memory())
	long := string(make([]byte, maxKey+1))
	for name, txn := range map[string]metadata.Txn{
		"empty key": put("", "x"), "long key": put(long, "x"), "long deleted key": {Delete: []string{long}},
		"key twice":  {Put: []metadata.KV{{Key: "/a"}}, Delete: []string{"/a"}},
		"huge value": {Put: []metadata.KV{{Key: "/a", Value: make([]byte, maxTxn)}}},
	} {
		if _, err := s.Txn(context.Background(), txn); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	wantDump(t, s, "@0")
}

func TestStoreCopiesValues(t *testing.T) {
	s := open(t, vfs.Memory())
	value := []byte("1")
	mustTxn(t, s, metadata.Txn{Put: []metadata.KV{{Key: "/a", Value: value}}})
	value[0] = 'X'
	wantDump(t, s, "@1 /a=1@1")
}

func TestContentSurvivesReopening(t *testing.T) {
	fsys := vfs.Memory()
	for i := range 5 {
		s := open(t, fsys)
		mustTxn(t, s, put("/n", fmt.Sprint(i)))
		mustTxn(t, s, put(fmt.Sprintf("/k%d", i), "x"))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantDump(t, open(t, fsys), "@10 /k0=x@2 /k1=x@4 /k2=x@6 /k3=x@8 /k4=x@10 /n=4@9")
}

// A hundred waiting transactions share one slow sync, even if they conflict: each sees those before
// it in the group, so only one of them can create the same key.
func TestTransactionsThatArriveTogetherShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New(1)
		s := open(t, fsys)
		fsys.SetSyncLatency(time.Second)
		before := fsys.Syncs()
		var wg sync.WaitGroup
		var mu sync.Mutex
		conflicts, seen := 0, map[int64]bool{}
		for range 100 {
			wg.Go(func() {
				rev, err := s.Txn(context.Background(),
					metadata.Txn{If: []metadata.Compare{{Key: "/once"}}, Put: []metadata.KV{{Key: "/once"}}})
				rev2, err2 := s.Txn(context.Background(), put("/any", "x"))
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, metadata.ErrConflict) {
					conflicts++
				} else {
					seen[rev] = err == nil
				}
				seen[rev2] = err2 == nil
			})
		}
		wg.Wait()
		if conflicts != 99 || len(seen) != 101 {
			t.Errorf("%d conflicts, %d revisions; want 99 and 101", conflicts, len(seen))
		}
		if n := fsys.Syncs() - before; n > 5 {
			t.Errorf("%d syncs for 101 transactions in two waves, want at most 5", n)
		}
	})
}

func TestCanceledContextReleasesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New(1)
		s := open(t, fsys)
		fsys.SetSyncLatency(time.Hour)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := s.Txn(ctx, put("/a", "1")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a transaction past its deadline: %v", err)
		}
	})
}

func TestClosedStoreReturnsErrClosed(t *testing.T) {
	ctx := context.Background()
	s := open(t, vfs.Memory())
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

func TestCloseAnswersRunningTransactions(t *testing.T) {
	fsys := vfs.Memory()
	s := open(t, fsys)
	var wg sync.WaitGroup
	var mu sync.Mutex
	acknowledged := int64(0)
	for range 50 {
		wg.Go(func() {
			for {
				rev, err := s.Txn(context.Background(), put("/a", "x"))
				if err != nil {
					if !errors.Is(err, metadata.ErrClosed) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				acknowledged = max(acknowledged, rev)
				mu.Unlock()
				if rev == 200 {
					go s.Close()
				}
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, rev, err := open(t, fsys).Get(context.Background(), "/a")
	if err != nil || rev != acknowledged {
		t.Errorf("reopened at revision %d (%v), %d were acknowledged", rev, err, acknowledged)
	}
}
