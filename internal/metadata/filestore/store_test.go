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
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/storetest"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStoreKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) metadata.Store { return open(t, vfs.Memory()) })
}

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

// A conflict names a revision that WaitFor finds visible at once, even if a transaction of the same
// group decided it.
func TestConflictNamesARevisionThatIsVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New(1)
		s := open(t, fsys)
		fsys.SetSyncLatency(time.Second)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				once := metadata.Txn{If: []metadata.Compare{{Key: "/once"}}, Put: []metadata.KV{{Key: "/once"}}}
				_, err := s.Txn(context.Background(), once)
				var c *metadata.ConflictError
				if err == nil {
					return
				}
				if !errors.As(err, &c) || c.Revision != 1 || c.Found != 1 {
					t.Errorf("the conflict is %v", err)
				} else if _, rev, _ := s.Get(context.Background(), "/once"); rev < c.Revision {
					t.Errorf("revision %d is visible after a conflict at %d", rev, c.Revision)
				}
			})
		}
		wg.Wait()
	})
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

// A commit that waits for the disk is known to health, since its callers may have given up.
func TestHangingCommitIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New(1)
		s := open(t, fsys)
		fsys.SetSyncLatency(time.Hour)
		done := make(chan error, 1)
		go func() {
			_, err := s.Txn(context.Background(), put("/a", "1"))
			done <- err
		}()
		time.Sleep(time.Minute) // of the bubble
		if got := s.Hanging(); got != time.Minute {
			t.Errorf("%v, want a minute", got)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := s.Hanging(); got != 0 {
			t.Errorf("%v after the commit", got)
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
