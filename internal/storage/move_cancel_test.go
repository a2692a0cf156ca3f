package storage

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// The copy of a canceled move can't be removed at first. The move stays canceled until it is gone,
// so that no start begins it again, whatever removes it.
func TestACanceledMoveStaysUntilItsCopyIsGone(t *testing.T) {
	run := func(m *Manager) error {
		_, err := m.RunMove(context.Background(), scriptID)
		if errors.Is(err, ErrMoveCanceled) {
			return nil
		}
		return err
	}
	moves := func(to int) func(*Manager) error {
		return func(m *Manager) error { return m.BeginMove(context.Background(), scriptID, m.dirs[to]) }
	}
	for what, c := range map[string]struct{ cancel, again func(*Manager) error }{
		"moved to where it is, and run":  {moves(0), run},
		"moved to where it is, repeated": {moves(0), moves(0)},
		"another move to there":          {moves(0), moves(1)},
		"deleted":                        {func(m *Manager) error { return errors.Join(m.Delete(scriptID), run(m)) }, run},
	} {
		for _, op := range []errfs.Op{errfs.Remove, errfs.SyncDir} {
			disk := crashfs.New(1)
			errs := errfs.New(disk)
			m, l := movable(t, errs, testConfig("sync"))
			put(t, l, 5, 100)
			must(t, moves(1)(m))
			path := map[errfs.Op]string{errfs.Remove: "/b/*" + futureSuffix, errfs.SyncDir: "/b"}[op]
			errs.Add(errfs.Rule{Ops: op, Path: path, Err: syscall.EIO})
			for range 2 {
				if err := c.cancel(m); !errors.Is(err, ErrCopyLeft) || !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
					t.Errorf("%s, %v: canceled: %v", what, op, err)
				}
				if len(m.Moves()) > 0 || m.PendingMoves()[scriptID] != m.dirs[1] {
					t.Errorf("%s, %v: the moves are %+v, pending %v", what, op, m.Moves(), m.PendingMoves())
				}
			}
			errs.Clear()
			must(t, c.again(m))
			if what == "another move to there" {
				if l := ran(t, m); l.dir != m.dirs[1] {
					t.Errorf("%s: it is in %s", what, l.dir.path)
				}
				continue
			}
			if left := namesOf(t, disk, "/b"); len(left) > 0 || len(m.PendingMoves()) > 0 {
				t.Errorf("%s, %v: %v, %v", what, op, left, m.PendingMoves())
			}
			must(t, m.Close())
			if m = mustManage(t, disk); len(m.Moves()) > 0 {
				t.Errorf("%s, %v: a start moves it", what, op)
			}
		}
	}
}

// A move is canceled while it runs, and neither it nor the request can remove the copy.
func TestTheCopyOfAMoveThatRunsStays(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	m, l := movable(t, errs, testConfig("sync"))
	put(t, l, 5, 100)
	must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
	hold, let := gated(t)
	held := errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/b/*" + futureSuffix + "/*.log", Before: func(errfs.Call) { <-hold }})
	errs.Add(errfs.Rule{Ops: errfs.Remove, Path: "/b/*" + futureSuffix, Err: syscall.EIO})
	var wg sync.WaitGroup
	var ran, canceled error
	wg.Go(func() { _, ran = m.RunMove(context.Background(), scriptID) })
	eventually(t, "it runs", func() bool { return held.Hits() > 0 })
	wg.Go(func() { canceled = m.BeginMove(context.Background(), scriptID, m.dirs[0]) })
	eventually(t, "it is canceled", func() bool { return len(m.Moves()) == 0 })
	let()
	wg.Wait()
	if !errors.Is(ran, ErrCopyLeft) || errors.Is(ran, ErrMoveCanceled) || !errors.Is(canceled, ErrCopyLeft) {
		t.Errorf("the move: %v; the request: %v", ran, canceled)
	}
	errs.Clear()
	if _, err := m.RunMove(context.Background(), scriptID); !errors.Is(err, ErrMoveCanceled) || len(m.PendingMoves()) > 0 {
		t.Errorf("afterwards: %v, %v", err, m.PendingMoves())
	}
}
