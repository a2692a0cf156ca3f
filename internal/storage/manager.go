package storage

import (
	"errors"
	"sync"
	"time"
)

// Manager is all log directories of a broker.
type Manager struct {
	dirs   []*Dir // those that opened, in the order of the configuration
	failed []*DirError
	tick   func() <-chan time.Time // hungAfter has passed; tests replace it

	mu   sync.RWMutex
	logs map[ID]*Log
	// begun has the logs whose creation was begun in a directory and has not succeeded. Until
	// that directory's checkpoint is known not to name it, a log is made there or nowhere: it
	// must never exist in two directories.
	begun map[ID]*Dir
	late  map[*Dir]int // operations that were in flight for too long and still are

	flights sync.WaitGroup
}

func newManager() *Manager {
	return &Manager{
		tick: func() <-chan time.Time { return time.After(hungAfter) },
		logs: map[ID]*Log{}, begun: map[ID]*Dir{}, late: map[*Dir]int{},
	}
}

// Dirs returns the log directories that are in use, in the order of the configuration.
func (m *Manager) Dirs() []*Dir { return m.dirs }

// Failed returns the log directories that could not be opened. They stay out of use until
// the next start. The slice must not be changed.
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
	list := make([]*Log, 0, len(m.logs))
	for _, l := range m.logs {
		list = append(list, l)
	}
	return list
}

// Room returns why no partition should be made for a client now: every directory
// that takes records has too little space. The error matches ErrLowSpace.
func (m *Manager) Room() (err error) {
	for _, d := range m.dirs {
		if d.Err() != nil {
			continue
		}
		low := d.Room()
		if low == nil {
			return nil
		}
		if err == nil {
			err = low
		}
	}
	return err
}

// Close closes all directories; see Dir.Close. It waits for operations that are in flight.
func (m *Manager) Close() error {
	m.flights.Wait()
	errs := make([]error, len(m.dirs))
	var wg sync.WaitGroup
	for i, d := range m.dirs {
		wg.Go(func() { errs[i] = d.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
