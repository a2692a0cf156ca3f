package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/metadata"
)

// recordTime is the timeout of one metadata transaction of the recorder.
const recordTime = 30 * time.Second

// loudTries is the number of attempts in a row that fail for want of a metadata leader before that
// is logged as an error; the pauses between them are about 15 s.
const loudTries = 5

// changes are what a Manager records in the metadata.
type changes struct {
	// dirs are the log directories of replicas. A zero one means that there is no log any longer.
	dirs   map[metadata.TopicPartition][16]byte
	forget map[[16]byte]bool // deleted topics without logs on this broker
	raise  map[metadata.TopicPartition]metadata.Raise
}

func newChanges() changes {
	return changes{map[metadata.TopicPartition][16]byte{}, map[[16]byte]bool{}, map[metadata.TopicPartition]metadata.Raise{}}
}

func (c changes) empty() bool { return len(c.dirs) == 0 && len(c.forget) == 0 && len(c.raise) == 0 }

// forgetting returns the change that topics have no logs left.
func forgetting(topics [][16]byte) changes {
	c := newChanges()
	for _, id := range topics {
		c.forget[id] = true
	}
	return c
}

// recorder records in the metadata where logs were created, which deleted topics have no logs left,
// and which partitions need a higher leader epoch. It runs on its own goroutine while there is
// something to record, so that a metadata store that hangs delays no role and no log. It combines
// pending changes, of which the latest counts, and retries them after a failure. Guarded by
// Manager.mu.
type recorder struct {
	m *Manager
	changes
	rounds []*round // to be ended when the changes were tried
	busy   bool     // a goroutine runs, or a timer will start it
	tries  int      // consecutive failures
}

// add adds changes to record. The rounds end when each was attempted once.
func (r *recorder) add(c changes, rounds []*round) {
	m := r.m
	if c.empty() {
		m.ended(rounds...)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(r.dirs, c.dirs)
	maps.Copy(r.forget, c.forget)
	maps.Copy(r.raise, c.raise)
	r.rounds = append(r.rounds, rounds...)
	if !r.busy && !m.closed {
		r.busy = true
		m.work.Go(r.run)
	}
}

// RaiseAbove has the leader epoch of a partition that this broker leads raised above known, if it
// is still epoch: what is kept for the partition elsewhere has a later epoch than the metadata,
// which were restored from a copy. The leader stays. It does not block.
func (m *Manager) RaiseAbove(topic [16]byte, partition, epoch, known int32) {
	c := newChanges()
	c.raise[metadata.TopicPartition{Topic: topic, Partition: partition}] = metadata.Raise{From: epoch, Seen: known}
	m.recorder.add(c, nil)
}

// run records changes until there are none or recording fails.
func (r *recorder) run() {
	label.Goroutine("replica record", "")
	m := r.m
	for {
		m.mu.Lock()
		if r.empty() || m.closed {
			r.busy = false
			m.mu.Unlock()
			return
		}
		c, rounds := r.changes, r.rounds
		r.changes, r.rounds = newChanges(), nil
		m.mu.Unlock()
		pause := r.outcome(r.record(c))
		m.ended(rounds...)
		if pause {
			return
		}
	}
}

// record writes changes to the metadata, and returns those that failed.
func (r *recorder) record(c changes) (failed changes, err error) {
	failed = newChanges()
	raised := r.try(len(c.raise), "raise the leader epochs of %d partitions", func(ctx context.Context) error {
		_, err := r.m.opt.Cluster.RaiseEpochs(ctx, c.raise)
		return err
	})
	if raised != nil {
		failed.raise = c.raise
	}
	assigned := r.try(len(c.dirs), "record the log directories of %d partitions", func(ctx context.Context) error {
		_, err := r.m.opt.Cluster.AssignDirs(ctx, r.m.opt.Self, c.dirs)
		return err
	})
	if assigned != nil {
		failed.dirs = c.dirs
	}
	forgotten := r.try(len(c.forget), "forget %d deleted topics", func(ctx context.Context) error {
		_, err := r.m.opt.Cluster.ForgetDeleted(ctx, r.m.opt.Self, slices.Collect(maps.Keys(c.forget))...)
		return err
	})
	if forgotten != nil {
		failed.forget = c.forget
	}
	return failed, errors.Join(raised, assigned, forgotten)
}

// try runs one transaction for n things.
func (r *recorder) try(n int, what string, txn func(context.Context) error) error {
	if n == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.m.ctx, recordTime)
	defer cancel()
	if err := txn(ctx); err != nil {
		return fmt.Errorf(what+": %w", n, err)
	}
	return nil
}

// outcome keeps the changes that failed for the next attempt, unless newer ones replace them; err
// is nil if there are none. It reports whether the goroutine must end, because a timer will
// continue.
func (r *recorder) outcome(failed changes, err error) bool {
	m := r.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		r.tries = 0
		return false
	}
	if m.closed {
		return false // run ends on its next iteration
	}
	r.tries++
	const what = "recording the state of logs in the metadata failed; retrying"
	switch passing := errors.Is(err, metadata.ErrUnknown) || errors.Is(err, metadata.ErrUnavailable); {
	case r.tries == 1 && passing: // another broker is about to lead the metadata
		m.opt.Logger.Warn(what, zap.Error(err))
	case r.tries == 1, r.tries == loudTries && passing:
		m.opt.Logger.Error(what, zap.Error(err))
	}
	for tp, dir := range failed.dirs {
		if _, newer := r.dirs[tp]; !newer && (m.partitions[tp] != nil || dir == [16]byte{}) {
			r.dirs[tp] = dir
		}
	}
	for tp, x := range failed.raise {
		if _, newer := r.raise[tp]; !newer && m.partitions[tp] != nil {
			r.raise[tp] = x // without effect if the epoch has changed since
		}
	}
	maps.Copy(r.forget, failed.forget)
	// All brokers retry against one controller. After Close, resume starts nothing.
	time.AfterFunc(backoff.Spread(r.tries), r.resume)
	return true
}

// resume continues after a pause.
func (r *recorder) resume() {
	m := r.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.busy = !m.closed; r.busy {
		m.work.Go(r.run)
	}
}
