package filestore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"go.uber.org/zap/zaptest"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/vfs"
)

func watch(t testing.TB, s *Store, from int64) metadata.Watcher {
	t.Helper()
	w, err := s.Watch(context.Background(), from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func next(t testing.TB, w metadata.Watcher) string {
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

func TestWatcherSeesEveryRevisionInOrder(t *testing.T) {
	s := open(t, vfs.Memory())
	mustTxn(t, s, put("/a", "1"))
	w := watch(t, s, 1)
	mustTxn(t, s, metadata.Txn{Put: []metadata.KV{{Key: "/b", Value: []byte("2")}}, Delete: []string{"/a", "/never"}})
	mustTxn(t, s, put("/b", "3"))
	for _, want := range []string{"1 /a=1", "2 /b=2 -/a", "3 /b=3"} {
		if got := next(t, w); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A slow watcher costs no memory: it loses its position and gets ErrCompacted.
func TestSlowWatcherGetsErrCompacted(t *testing.T) {
	s := open(t, vfs.Memory(), func(o *Options) { o.History = 3 })
	slow, other := watch(t, s, 2), watch(t, s, 3)
	for i := range 5 {
		mustTxn(t, s, put("/a", fmt.Sprint(i)))
	}
	if _, err := slow.Next(context.Background()); !errors.Is(err, metadata.ErrCompacted) {
		t.Errorf("a watcher older than the history: %v", err)
	}
	if got := next(t, other); got != "3 /a=2" {
		t.Errorf("the oldest revision kept: %s", got)
	}
	if n := len(s.history.batches); n != 3 {
		t.Errorf("%d revisions kept, want 3", n)
	}
}

func TestHistoryIsBoundedInBytes(t *testing.T) {
	h := history{limit: 1 << 20}
	big := metadata.Batch{Events: []metadata.Event{{Value: make([]byte, historyBytes/4)}}}
	for range 10 {
		h.add(big)
	}
	if len(h.batches) != 3 || h.bytes > historyBytes {
		t.Errorf("%d batches, %d bytes", len(h.batches), h.bytes)
	}
	h.add(metadata.Batch{Events: []metadata.Event{{Value: make([]byte, 2*historyBytes)}}})
	if len(h.batches) != 1 {
		t.Errorf("%d batches next to one that fills the limit", len(h.batches))
	}
}

func TestWatcherWaitsAndWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Options{FS: vfs.Memory(), Dir: "/m", Log: zaptest.NewLogger(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		results := make(chan error, 3)
		follow := func(ctx context.Context) metadata.Watcher {
			w, err := s.Watch(ctx, 1)
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, err := w.Next(ctx); results <- err }()
			return w
		}
		ctx, cancel := context.WithCancel(context.Background())
		follow(ctx)
		synctest.Wait()
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled Next: %v", err)
		}
		w := follow(context.Background())
		synctest.Wait()
		w.Close()
		if err := <-results; !errors.Is(err, metadata.ErrClosed) {
			t.Errorf("a closed watcher: %v", err)
		}
		follow(context.Background())
		synctest.Wait()
		mustTxn(t, s, put("/a", "1"))
		if err := <-results; err != nil {
			t.Errorf("a watcher with a pending batch: %v", err)
		}
	})
}
