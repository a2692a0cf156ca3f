package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/pause"
)

// Manager holds all log directories of a broker.
type Manager struct {
	dirs   []*Dir // those that opened, in the order of the configuration
	failed []*DirError
	tick   func() <-chan time.Time // fires after hungAfter; tests replace it

	closes sync.WaitGroup // of directories, begun by Shutdown

	mu   sync.RWMutex
	logs map[ID]*Log
	// begun holds the logs whose creation began in a directory and has not succeeded. Until that
	// directory's checkpoint is known not to name the log, the log is created there or nowhere: it
	// must never exist in two directories.
	begun map[ID]*Dir
	// deleting holds the logs whose deletion in a directory has begun and not ended.
	deleting map[ID]*Dir
	// moves are the moves of logs, and preferred where BeginMove wants logs that do not exist yet.
	moves     map[ID]*move
	preferred map[ID]*Dir
	moveRate  atomic.Int64 // bytes per second of all moves; 0: no limit
	movePace  pause.Pace
	// beginning has the logs of which a call of BeginMove is in progress; it closes the channel.
	beginning map[ID]chan struct{}
	// copies are the directories with the copy of a log whose move was committed, if this start
	// could not take the copy over. The log is not created until the next start: it would be in two
	// directories. Written by Open only.
	copies map[ID]*Dir

	late map[*Dir]int // operations in flight that have been reported as hung

	closing bool // Shutdown has begun: no operation starts any more
}

func newManager() *Manager {
	return &Manager{
		tick: func() <-chan time.Time { return time.After(hungAfter) },
		logs: map[ID]*Log{}, begun: map[ID]*Dir{}, deleting: map[ID]*Dir{}, late: map[*Dir]int{},
		moves: map[ID]*move{}, preferred: map[ID]*Dir{}, copies: map[ID]*Dir{},
		beginning: map[ID]chan struct{}{}, movePace: pause.Pace{Idle: paceIdle},
	}
}

// Dirs returns the log directories that are in use, in the order of the configuration.
func (m *Manager) Dirs() []*Dir { return m.dirs }

// Failed returns the log directories that could not be opened. They stay out of use until the next
// start. The slice must not be changed.
func (m *Manager) Failed() []*DirError { return m.failed }

// Get returns a log, nil if there is none.
func (m *Manager) Get(id ID) *Log {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.logs[id]
}

// Logs returns all logs.
func (m *Manager) Logs() []*Log {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Collect(maps.Values(m.logs))
}

// CanCreate returns why no partition should be created for a client now: every directory that
// accepts records is low on space, or there is none. The error matches ErrLowSpace.
func (m *Manager) CanCreate() (err error) {
	if len(m.dirs)+len(m.failed) == 0 {
		return fmt.Errorf("%w: this broker only votes, and no other one takes new partitions", ErrLowSpace)
	}
	for _, d := range m.dirs {
		if d.Err() != nil {
			continue
		}
		low := d.CanCreate()
		if low == nil {
			return nil
		}
		if err == nil {
			err = low
		}
	}
	return err
}

// Close closes all directories; see Dir.Close. It waits for operations in flight.
func (m *Manager) Close() error { return m.Shutdown(context.Background()) }

// Shutdown is Close with a deadline. When ctx ends, directories whose disk hangs are left as a kill
// would leave them, and the error names them. The others are closed and marked clean. Closed then
// waits for those that hang.
func (m *Manager) Shutdown(ctx context.Context) error {
	type outcome struct {
		dir *Dir
		err error
	}
	m.mu.Lock()
	m.closing = true
	m.mu.Unlock()
	ended, open := make(chan outcome, len(m.dirs)), map[*Dir]bool{}
	for _, d := range m.dirs {
		open[d] = true
		m.closes.Go(func() {
			d.operations.Wait()
			ended <- outcome{d, d.Close()}
		})
	}
	var errs []error
	for len(open) > 0 {
		select {
		case o := <-ended:
			delete(open, o.dir)
			errs = append(errs, o.err)
		case <-ctx.Done():
			for d := range open {
				errs = append(errs, fmt.Errorf("log directory %s could not be closed in time; the next start recovers it: %w", d.path,
					ctx.Err()))
			}
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}

// Closed returns when no directory is written to any longer, after Shutdown. That is not before the
// disk of one that hangs answers again.
func (m *Manager) Closed() { m.closes.Wait() }

// Unused records that no log has been written to, or read for a client, since Open. After an
// unclean stop, Close then leaves no clean mark, so that the next start still raises the leader
// epochs (invariant I9).
func (m *Manager) Unused() {
	for _, d := range m.dirs {
		d.unused = true
	}
}
