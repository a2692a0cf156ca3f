package filestore

import (
	"context"
	"errors"
	"fmt"
	"testing"

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
}
