package replica

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A move fails and is canceled, and the disk does not remove its copy at first. The request answers
// that, both failures are logged, and the copy is removed without another request.
func TestACopyThatStaysIsRemovedLater(t *testing.T) { synctest.Test(t, copyThatStays) }

func copyThatStays(t *testing.T) {
	c, errs := newCluster(), errfs.New(vfs.Memory())
	core, said := observer.New(zap.ErrorLevel)
	l := startWith(t, errs, c, Options{Logger: zap.New(core)}, "/d", "/e")
	c.topic("a", idA, 1)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager)) // the directory is recorded
	grow(t, l.partition(t, idA, 0))
	tp, id := metadata.TopicPartition{Topic: idA}, storage.ID{Topic: idA}
	from, to := l.storage.Get(id).Dir(), l.storage.Dirs()[0]
	if from == to {
		to = l.storage.Dirs()[1]
	}
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: to.Path() + "/*-future/*.log", Err: syscall.EIO})
	must(t, l.Move(t.Context(), tp, to))
	waitFor(t, "the move has failed", func() bool { return said.FilterMessageSnippet("a log could not be moved").Len() > 0 })
	stays := errs.Add(errfs.Rule{Ops: errfs.Remove, Path: to.Path() + "/*-future", Err: syscall.EIO})
	if err := l.Move(context.Background(), tp, from); !errors.Is(err, storage.ErrCopyLeft) {
		t.Errorf("canceled: %v", err)
	}
	waitFor(t, "the failure is logged", func() bool { return said.FilterMessageSnippet("the copy of a log").Len() > 0 })
	line := said.FilterMessageSnippet("the copy of a log").All()[0].ContextMap()
	if text := line["error"].(string); line["to"] != to.Path() || !strings.Contains(text, "a-0 to "+to.Path()) {
		t.Errorf("%v", line)
	}
	if len(l.Moves()) != 0 || len(l.storage.PendingMoves()) != 1 {
		t.Errorf("the moves are %v, pending %v", l.Moves(), l.storage.PendingMoves())
	}
	stays.Off()
	waitFor(t, "the copy is gone", func() bool { return len(l.storage.PendingMoves()) == 0 })
	if _, err := errs.Stat(to.Path() + "/" + storage.FutureName(id)); err == nil || l.storage.Get(id).Dir() != from {
		t.Errorf("the copy: %v; the log is in %s", err, l.storage.Get(id).Dir().Path())
	}
}
