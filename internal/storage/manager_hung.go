package storage

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// hungAfter is how long an operation on a directory may make no progress before the directory
// counts as hung. A working disk writes a checkpoint or creates a log in a fraction of it, however
// busy it is.
const hungAfter = 15 * time.Second

// operation is a call that concurrently makes on one directory.
type operation struct {
	dir      *Dir
	progress uint64 // at the last tick
	ended    bool   // guarded by Manager.mu
	late     bool   // no caller waits for it any longer; guarded by Manager.mu
	err      error
}

// concurrently runs fn for all directories at once and returns the joined errors. It waits while
// they make progress. A directory that makes none for hungAfter counts as hung: its operation fails
// for the caller and continues in the background. Until it ends, the directory gets no new logs,
// and other operations on it fail at once. Callers are often the one goroutine that applies
// metadata, on which every other directory depends.
func (m *Manager) concurrently(dirs []*Dir, fn func(*Dir) error) error {
	var errs []error
	ended := make(chan *operation, len(dirs))
	running := map[*operation]bool{}
	for _, d := range dirs {
		op := &operation{dir: d, progress: d.progress()}
		if err := m.begin(op, func() { ended <- m.run(op, fn) }); err != nil {
			errs = append(errs, err)
			continue
		}
		running[op] = true
	}
	for tick := m.tick(); len(running) > 0; {
		select {
		case op := <-ended:
			delete(running, op)
			errs = append(errs, op.err)
		case <-tick:
			tick = m.tick()
			for op := range running {
				if m.gaveUp(op) {
					delete(running, op)
					errs = append(errs, hung(op.dir))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// begin starts an operation's goroutine, unless its directory hangs or Shutdown has begun: after
// that, Shutdown could not wait for it.
func (m *Manager) begin(op *operation, run func()) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closing {
		return fmt.Errorf("%w: log directory %s is closing", ErrFailed, op.dir.path)
	}
	if err := m.hungLocked(op.dir); err != nil {
		return err
	}
	op.dir.operations.Go(run)
	return nil
}

// run carries out an operation.
func (m *Manager) run(op *operation, fn func(*Dir) error) *operation {
	err := fn(op.dir)
	m.mu.Lock()
	defer m.mu.Unlock()
	op.ended, op.err = true, err
	if op.late {
		if m.late[op.dir]--; m.late[op.dir] == 0 {
			delete(m.late, op.dir)
		}
		op.dir.log.Warn("operation on a hung log directory has ended", zap.Error(err))
	}
	return op
}

// gaveUp reports whether an operation has made no progress since the last call. If so, it marks the
// operation as late: no caller waits for it any longer.
func (m *Manager) gaveUp(op *operation) bool {
	before := op.progress
	op.progress = op.dir.progress()
	m.mu.Lock()
	defer m.mu.Unlock()
	if op.ended || op.progress != before {
		return false
	}
	op.late = true
	m.late[op.dir]++
	op.dir.log.Error("log directory hangs: it gets no new partitions, and operations on it fail; check its disk",
		zap.Duration("after", hungAfter))
	return true
}

// Hung returns why a directory must not be asked to create or delete logs now, nil if it may: an
// earlier operation on it makes no progress.
func (m *Manager) Hung(d *Dir) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.hungLocked(d)
}

// hungLocked returns why a directory must get no operations, nil if it may. The caller holds mu.
func (m *Manager) hungLocked(d *Dir) error {
	if m.late[d] > 0 {
		return hung(d)
	}
	return nil
}

func hung(d *Dir) error {
	return fmt.Errorf("%w: log directory %s hangs: its disk has not answered for %v; check the disk and the kernel log",
		ErrFailed, d.path, hungAfter)
}

// progress returns a number that changes while the directory works, that is, while it creates or
// deletes logs or its journal makes progress.
func (d *Dir) progress() uint64 {
	journal, _ := d.journal.Pulse()
	return d.steps.Load() + journal
}
