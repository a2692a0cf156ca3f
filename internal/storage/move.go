package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
)

// A log moves to another directory as its files: a checkpoint entry describes wholly what synced
// segments hold. While the log is in use, its segments are copied. For the rest it takes no
// appends. Then the entry changes the checkpoint:
//
//	copy, repeatedly ─▶ no appends, flush, copy the rest ─▶ the entry next to the copy, synced
//	  ─▶ checkpoint of the source with a tombstone that names the move
//	  ─▶ checkpoint of the target with the entry ─▶ rename of the copy ─▶ files of the source removed
//
// The tombstone is the commit point. Before it the log is the source's, whatever the target has.
// After it the log is the target's: a start completes the move, and the source keeps the tombstone
// until then. docs/journal.md has the failure cases.

// ErrMoving means that the log is changing its directory at this moment.
var ErrMoving = fmt.Errorf("%w: it is moving to another log directory", ErrFailed)

// ErrMoveCanceled means that the move was canceled, or the log was deleted.
var ErrMoveCanceled = errors.New("the move was canceled")

// ErrCopyLeft means that a move was canceled, and its copy could not be removed. Until it is, the
// log must not move elsewhere: the name of a copy makes its move durable, and a start that found
// two could not tell which one was asked for last.
var ErrCopyLeft = fmt.Errorf("%w: the move was canceled, and its copy could not be removed, which is tried again; until then the log "+
	"moves to no other directory, and a start begins the move again", ErrFailed)

// move is a move of a log in progress.
type move struct {
	id    ID
	to    *Dir
	since time.Time

	// Guarded by Manager.mu.
	running    chan struct{} // closed when RunMove or the removal of the copy ends; nil: neither runs
	completing bool          // it cannot be canceled now

	canceled          atomic.Bool
	copied, want, end atomic.Int64          // see Move
	err               atomic.Pointer[error] // why it last came to a stop

	// Used by RunMove only.
	copies map[int64]*segmentCopy // by base offset
	entry  *checkpoint.Log        // that the tombstone commits; nil before
}

// Move describes a move of a log to another directory.
type Move struct {
	ID
	Topic    string
	From, To *Dir
	Since    time.Time
	// Copied is how many bytes the target has of Want, and End the offset below which it has all.
	Copied, Want, End int64
	LogEnd            int64
	Err               error // why it stands still; nil: it does not
}

// PendingMoves returns the logs for which RunMove has something to do, with the directories to
// which they move. If the move of one was canceled, RunMove removes the copy, and the move stays
// until that has succeeded.
func (m *Manager) PendingMoves() map[ID]*Dir {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := make(map[ID]*Dir, len(m.moves))
	for id, x := range m.moves {
		list[id] = x.to
	}
	return list
}

// Moves returns the moves in progress, by topic name and partition.
func (m *Manager) Moves() (list []Move) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for id, x := range m.moves {
		l := m.logs[id]
		if l == nil || x.canceled.Load() {
			continue
		}
		v := Move{ID: id, Topic: l.topic, From: l.dir, To: x.to, Since: x.since, Copied: x.copied.Load(),
			Want: max(x.want.Load(), l.Size()), End: max(x.end.Load(), l.logStart.Load()), LogEnd: l.logEnd.Load()}
		if p := x.err.Load(); p != nil {
			v.Err = *p
		}
		list = append(list, v)
	}
	sorts.Sort(list, func(a, b Move) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return list
}

// Lag returns how many offsets the copy lacks.
func (x *Move) Lag() int64 { return max(x.LogEnd-x.End, 0) }

// SetMoveRate bounds the bytes per second that all moves copy; 0 is no bound.
func (m *Manager) SetMoveRate(perSec int64) { m.moveRate.Store(perSec) }

// BeginMove makes it durable that a log is to move to a directory; RunMove then moves it. To its
// own directory it cancels a move. It replaces a move to another directory, and waits for one that
// is about to be complete. If there is no log, it will be created in the directory, as long as this
// process runs. After ErrCopyLeft the former move stays canceled, and RunMove removes its copy.
func (m *Manager) BeginMove(ctx context.Context, id ID, to *Dir) error {
	if err := m.waitToBegin(ctx, id); err != nil {
		return err
	}
	defer m.begunMove(id)
	if err := m.endMove(ctx, id, to); err != nil {
		return err
	}
	m.mu.Lock()
	l := m.logs[id]
	if l == nil {
		m.preferred[id] = to
	}
	done := l == nil || l.dir == to || m.moves[id] != nil
	m.mu.Unlock()
	if done {
		return nil
	}
	if err := cmp.Or(to.Err(), m.Hung(to), to.CanCreate()); err != nil {
		return fmt.Errorf("move %s to %s: %w", l, to.path, err)
	}
	if err := to.makeFuture(id); err != nil {
		return fmt.Errorf("move %s to %s: %w", l, to.path, err)
	}
	to.log.Info("a log moves to this directory", zap.Stringer("log", l), zap.String("from", l.dir.path))
	m.addMove(id, to)
	return nil
}

// waitToBegin lets one call of BeginMove at a time begin a move of a log: two would remove each
// other's directory. The caller calls begunMove if there is no error.
func (m *Manager) waitToBegin(ctx context.Context, id ID) error {
	for {
		m.mu.Lock()
		other := m.beginning[id]
		if other == nil {
			m.beginning[id] = make(chan struct{})
		}
		m.mu.Unlock()
		if other == nil {
			return nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return fmt.Errorf("another request begins a move of the log: %w: %w", ErrMoving, ctx.Err())
		}
	}
}

func (m *Manager) begunMove(id ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.beginning[id])
	delete(m.beginning, id)
}

func (m *Manager) addMove(id ID, to *Dir) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moves[id] = &move{id: id, to: to, since: to.now(), copies: map[int64]*segmentCopy{}}
}

// endMove ends the move of a log to another directory than to.
func (m *Manager) endMove(ctx context.Context, id ID, to *Dir) error {
	for {
		m.mu.Lock()
		delete(m.preferred, id)
		x := m.moves[id]
		if x == nil || x.to == to && !x.canceled.Load() {
			m.mu.Unlock()
			return nil
		}
		running := x.running
		if x.completing && running == nil {
			m.mu.Unlock()
			return fmt.Errorf("cancel the move to %s: %w", x.to.path, ErrMoving)
		}
		if !x.completing { // otherwise it ends within moments, and the log then moves from there
			x.canceled.Store(true)
		}
		if running == nil {
			x.running = make(chan struct{}) // RunMove must not remove the copy, too
		}
		m.mu.Unlock()
		if running == nil {
			err := m.dropMove(x)
			m.mu.Lock()
			x.endRunLocked()
			m.mu.Unlock()
			return err
		}
		select {
		case <-running:
		case <-ctx.Done():
			return fmt.Errorf("cancel the move to %s: %w: %w", x.to.path, ErrMoving, ctx.Err())
		}
	}
}

// endRunLocked states that neither RunMove nor the removal of the copy runs. The caller holds mu of
// the manager.
func (x *move) endRunLocked() {
	close(x.running)
	x.running = nil
}

// dropMove removes what a canceled move has copied. Until then the move stays: the copy makes a
// start begin it again. The caller has set running, so that no other call removes the copy of a
// later move.
func (m *Manager) dropMove(x *move) error {
	x.canceled.Store(true)
	if err := x.to.removeFuture(FutureName(x.id)); err != nil {
		return fmt.Errorf("move of %s to %s: %w: %w", m.nameOf(x.id), x.to.path, ErrCopyLeft, err)
	}
	m.mu.Lock()
	delete(m.moves, x.id)
	m.mu.Unlock()
	x.to.log.Info("a move to this directory was canceled", zap.String("log", m.nameOf(x.id)))
	return nil
}

// nameOf returns the name of a log for messages, which after its deletion has the topic's id.
func (m *Manager) nameOf(id ID) string {
	if l := m.Get(id); l != nil {
		return l.String()
	}
	return stem(id)
}

// unmoveLocked cancels the moves of logs that are going to be deleted, and returns these logs. The
// error is that the moves of the others can't be canceled at this moment. The caller holds mu.
func (m *Manager) unmoveLocked(ids []ID) (rest []ID, err error) {
	for _, id := range ids {
		x := m.moves[id]
		if x != nil && x.completing {
			err = fmt.Errorf("delete log %s: %w", stem(id), ErrMoving)
			continue
		}
		rest = append(rest, id)
		delete(m.preferred, id)
		if x != nil {
			x.canceled.Store(true)
		}
	}
	return rest, err
}

// RunMove moves a log as BeginMove has asked for, and returns it as it is in its new directory. The
// former one refuses everything from then on. After an error the caller calls RunMove again, unless
// the error matches ErrMoveCanceled: there is nothing left to do. If it matches ErrCopyLeft, the
// next call removes the copy.
func (m *Manager) RunMove(ctx context.Context, id ID) (moved *Log, err error) {
	x, l, err := m.startMove(id)
	if err != nil {
		return nil, err
	}
	if l != nil {
		moved, err = m.runMove(ctx, x, l)
		l.dir.operations.Done()
	}
	if l == nil || errors.Is(err, ErrMoveCanceled) || err != nil && x.canceled.Load() {
		if err = m.dropMove(x); err == nil {
			err = ErrMoveCanceled
		}
	} else if err != nil {
		err = fmt.Errorf("move %s to %s: %w", l, x.to.path, err)
		x.err.Store(&err)
	}
	m.mu.Lock()
	if err == nil {
		m.logs[id] = moved
		delete(m.moves, id)
	}
	x.endRunLocked()
	m.mu.Unlock()
	x.to.operations.Done()
	return moved, err
}

// startMove notes that a move runs, until the caller has closed running. The log is nil if it was
// deleted.
func (m *Manager) startMove(id ID) (*move, *Log, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x, l := m.moves[id], m.logs[id]
	switch {
	case x == nil:
		return nil, nil, ErrMoveCanceled
	case m.closing:
		return nil, nil, ErrClosed
	case x.running != nil && x.canceled.Load():
		return nil, nil, ErrMoveCanceled // who runs it removes the copy
	case x.running != nil:
		return nil, nil, ErrMoving
	}
	x.running = make(chan struct{})
	x.err.Store(nil)
	x.to.operations.Add(1)
	if l != nil {
		l.dir.operations.Add(1)
	}
	return x, l, nil
}

// restBytes is how much may be left to copy when a log stops taking appends.
const restBytes = 4 << 20

func (m *Manager) runMove(ctx context.Context, x *move, l *Log) (*Log, error) {
	for x.entry == nil {
		if x.canceled.Load() {
			return nil, ErrMoveCanceled
		}
		// What only the journal has would be in the rest, which is not paced.
		err := l.flushAndSync()
		n := int64(0)
		if err == nil {
			n, err = m.copyPass(ctx, x, l, false)
		}
		if err == nil && n <= restBytes {
			err = m.finishMove(ctx, x, l)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := l.dir.ascertain(); err != nil { // the tombstone, if its commit failed
		return nil, err
	}
	moved, err := x.to.promote(&future{name: FutureName(x.id), entry: x.entry, from: l.dir.ID()}, *l.cfg.Load())
	if err != nil {
		return nil, err
	}
	l.dir.moved(x.id)
	return moved, nil
}

// moved forgets that a tombstone names a move, which is complete, and removes the files.
func (d *Dir) moved(id ID) {
	d.mu.Lock()
	t, is := d.deleted[id]
	if t.Swapping, t.Swap = false, 0; is {
		d.deleted[id] = t
	}
	d.mu.Unlock()
	if !is || t.gone {
		return
	}
	if err := d.removeDeleted([]checkpoint.Log{t.Log}); err != nil {
		d.logOnce(nil, "files of a log that was moved could not be removed, the next start tries again", err)
	}
}
