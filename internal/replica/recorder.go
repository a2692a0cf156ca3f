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

// recordTime bounds one transaction with which the recorder tells the metadata.
const recordTime = 30 * time.Second

// recorder tells the metadata where logs were made and of which deleted topics no log is
// left, on a goroutine of its own, which runs while there is something to tell: a store
// that hangs holds up no role and no log. What comes meanwhile is told in one transaction.
// One that fails is tried again. Manager.mu guards it.
type recorder struct {
	m      *Manager
	dirs   map[metadata.TopicPartition][16]byte
	forget map[[16]byte]bool
	rounds []*round // to be ended when that was tried
	busy   bool     // a goroutine works on it, or a timer will
	tries  int      // that failed in a row
}

// add notes what is to be told, and ends the rounds when that has been tried once.
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

// run tells until there is nothing more to tell, or it can't be told.
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

// outcome notes what could not be told, unless something newer is known, and why; err is nil
// where all was told. It reports whether the goroutine is to end, because a timer goes on.
func (r *recorder) outcome(dirs map[metadata.TopicPartition][16]byte, forget map[[16]byte]bool, err error) bool {
	m := r.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		r.tries = 0
		return false
	}
	if m.closed {
		return false // run ends by itself
	}
	if r.tries++; r.tries == 1 {
		m.opt.Logger.Error("what became of logs could not be recorded in the metadata, it is tried again", zap.Error(err))
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

// resume goes on after a pause.
func (r *recorder) resume() {
	m := r.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.busy = !m.closed; r.busy {
		m.work.Go(r.run)
	}
}
