package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
)

// recordTime is the timeout of one metadata transaction of the recorder.
const recordTime = 30 * time.Second

// recorder records in the metadata where logs were created and which deleted topics have no logs
// left. It runs on its own goroutine while there is something to record, so that a metadata store
// that hangs delays no role and no log. It combines pending changes in one transaction, and retries
// it after a failure. Guarded by Manager.mu.
type recorder struct {
	m      *Manager
	dirs   map[metadata.TopicPartition][16]byte
	forget map[[16]byte]bool
	rounds []*round // to be ended when the changes were tried
	busy   bool     // a goroutine runs, or a timer will start it
	tries  int      // consecutive failures
}

// add adds changes to record. The rounds end when each was attempted once.
func (r *recorder) add(dirs map[metadata.TopicPartition][16]byte, forget [][16]byte, rounds []*round) {
	m := r.m
	if len(dirs) == 0 && len(forget) == 0 {
		m.ended(rounds...)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(r.dirs, dirs)
	for _, id := range forget {
		r.forget[id] = true
	}
	r.rounds = append(r.rounds, rounds...)
	if !r.busy && !m.closed {
		r.busy = true
		m.work.Go(r.run)
	}
}

// run records changes until there are none or recording fails.
func (r *recorder) run() {
	m := r.m
	for {
		m.mu.Lock()
		if len(r.dirs) == 0 && len(r.forget) == 0 || m.closed {
			r.busy = false
			m.mu.Unlock()
			return
		}
		dirs, forget, rounds := r.dirs, r.forget, r.rounds
		r.dirs, r.forget, r.rounds = map[metadata.TopicPartition][16]byte{}, map[[16]byte]bool{}, nil
		m.mu.Unlock()
		assigned, removed := r.assign(dirs), r.remove(forget)
		if assigned == nil {
			dirs = nil
		}
		if removed == nil {
			forget = nil
		}
		pause := r.outcome(dirs, forget, errors.Join(assigned, removed))
		m.ended(rounds...)
		if pause {
			return
		}
	}
}

func (r *recorder) assign(dirs map[metadata.TopicPartition][16]byte) error {
	if len(dirs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.m.ctx, recordTime)
	defer cancel()
	if _, err := r.m.opt.Cluster.AssignDirs(ctx, r.m.opt.Self, dirs); err != nil {
		return fmt.Errorf("record the log directories of %d partitions: %w", len(dirs), err)
	}
	return nil
}

func (r *recorder) remove(topics map[[16]byte]bool) error {
	if len(topics) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.m.ctx, recordTime)
	defer cancel()
	if _, err := r.m.opt.Cluster.ForgetDeleted(ctx, slices.Collect(maps.Keys(topics))...); err != nil {
		return fmt.Errorf("forget %d deleted topics: %w", len(topics), err)
	}
	return nil
}

// outcome keeps the changes that failed for the next attempt, unless they are outdated; err is nil
// if there are none. It reports whether the goroutine must end because a timer will continue.
func (r *recorder) outcome(dirs map[metadata.TopicPartition][16]byte, forget map[[16]byte]bool, err error) bool {
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
	if r.tries++; r.tries == 1 {
		m.opt.Logger.Error("recording the state of logs in the metadata failed; retrying", zap.Error(err))
	}
	for tp, dir := range dirs {
		if _, newer := r.dirs[tp]; !newer && m.partitions[tp] != nil {
			r.dirs[tp] = dir
		}
	}
	maps.Copy(r.forget, forget)
	time.AfterFunc(backoff(r.tries), r.resume)
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
