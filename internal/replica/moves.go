package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/series"
	"github.com/chronik-io/chronik/internal/storage"
)

// Move has the log of a replica moved to another directory of this broker (storage.BeginMove). The
// partition is in use until all is there. Then it begins again with that log, as after a start, and
// a leader leads in another epoch: what was decided for the former log must not count for this one.
func (m *Manager) Move(ctx context.Context, tp metadata.TopicPartition, to *storage.Dir) error {
	err := m.opt.Storage.BeginMove(ctx, storage.ID{Topic: tp.Topic, Partition: tp.Partition}, to)
	m.runMoves() // also after an error: the copy of a canceled move may be left
	return err
}

// Moves returns the moves of logs in progress, by topic name and partition.
func (m *Manager) Moves() []storage.Move { return m.opt.Storage.Moves() }

// runMoves has the moves to each directory run on a goroutine of its own, one after the other.
func (m *Manager) runMoves() {
	for _, d := range m.opt.Storage.PendingMoves() {
		m.mu.Lock()
		wake := m.movers[d]
		if wake == nil && !m.closed {
			wake = make(chan struct{}, 1)
			m.movers[d] = wake
			m.work.Go(func() { m.moveTo(d, wake) })
		}
		m.mu.Unlock()
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// moveTo runs the moves to a directory until Close.
func (m *Manager) moveTo(d *storage.Dir, wake <-chan struct{}) {
	label.Goroutine("replica move", d.Path())
	var failed series.Failures
	tries := map[storage.ID]int{}
	for {
		most, pending := 0, m.opt.Storage.PendingMoves()
		maps.DeleteFunc(tries, func(id storage.ID, _ int) bool {
			if pending[id] == d {
				return false
			}
			failed.Ended(seriesOf(id, ""))
			return true
		})
		for id, to := range pending {
			if to != d || m.ctx.Err() != nil {
				continue
			}
			err := m.move(id)
			if err == nil || errors.Is(err, storage.ErrMoveCanceled) || m.ctx.Err() != nil {
				delete(tries, id)
				failed.Ended(seriesOf(id, ""))
				continue
			}
			if tries[id]++; !errors.Is(err, errUnrecorded) {
				m.moveFailed(&failed, id, d, err)
			}
			most = max(most, tries[id])
		}
		var again <-chan time.Time
		if most > 0 {
			again = time.After(backoff.After(most))
		}
		select {
		case <-m.ctx.Done():
			return
		case <-wake:
		case <-again:
		}
	}
}

// moveFailed logs ever fewer of the failures of one move.
func (m *Manager) moveFailed(failed *series.Failures, id storage.ID, to *storage.Dir, err error) {
	what := "a log could not be moved; retrying until chronikctl broker move-logs names another directory"
	if errors.Is(err, storage.ErrCopyLeft) {
		what = "the copy of a log whose move was canceled could not be removed; retrying"
	}
	if n, say := failed.Failed(seriesOf(id, what), err); say {
		m.opt.Logger.Error(what, zap.String("to", to.Path()), zap.Int("times", n), zap.Error(err))
	}
}

// seriesOf returns the key of a series of failures of a move, or the beginning of all of them.
func seriesOf(id storage.ID, what string) string {
	return series.Key(fmt.Sprintf("%x-%d", id.Topic, id.Partition), what)
}

// errUnrecorded: a log has moved, and the metadata names its former directory. If it moved once
// more, a start would not recognize it.
var errUnrecorded = errors.New("the metadata does not show its last move yet")

// move runs the move of a log.
func (m *Manager) move(id storage.ID) error {
	if l := m.opt.Storage.Get(id); l != nil {
		m.roles.Lock()
		w, known := m.wantedOf(id)
		recorded := l.Dir().ID()
		if known {
			recorded, _ = m.image.Placement(m.opt.Self, w.tp())
		}
		m.roles.Unlock()
		if recorded != l.Dir().ID() {
			return errUnrecorded
		}
	}
	l, err := m.opt.Storage.RunMove(m.ctx, id)
	if err == nil {
		m.adoptMoved(l)
	}
	return err
}

// adoptMoved replaces the partition of a log that has moved by one with the log in its new
// directory.
func (m *Manager) adoptMoved(l *storage.Log) {
	tp := metadata.TopicPartition{Topic: l.ID().Topic, Partition: l.ID().Partition}
	m.roles.Lock()
	w, known := m.wantedOf(l.ID())
	m.mu.Lock()
	p := m.partitions[tp]
	if p != nil && known {
		m.setLocked(tp, nil)
		m.missing[tp] = &missing{wanted: w, queued: true, dir: l.Dir(), since: time.Now(), led: p.LeaderEpoch()}
	}
	m.mu.Unlock()
	if p != nil {
		p.SetRole(&Role{Leader: -1, Epoch: p.LeaderEpoch()})
	}
	m.roles.Unlock()
	done := newChanges()
	m.adoptCreated([]*storage.Log{l}, -1, done) // unless the replica is being deleted
	m.recorder.add(done, nil)
}
