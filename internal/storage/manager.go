package storage

import (
	"errors"
	"fmt"
	"sync"
)

// Manager is all log directories of a broker.
type Manager struct {
	dirs []*Dir

	mu   sync.RWMutex
	logs map[ID]*Log
}

// Open opens the directories at once and recovers their logs. If one must not
// be used, none is; the error then joins a DirError for each.
func Open(places []Place, opt Options) (*Manager, error) {
	if len(places) == 0 {
		return nil, errors.New("no log directory is configured")
	}
	if opt.OpenFiles <= 0 {
		opt.OpenFiles = openFiles(len(places))
	}
	// There is one compaction at a time in each.
	if opt.CleanerBytes <= 0 {
		opt.CleanerBytes = cleanerBytes
	}
	opt.CleanerBytes = max(opt.CleanerBytes/int64(len(places)), 1)
	if opt.CleanerBytesPerSecond > 0 {
		opt.CleanerBytesPerSecond = max(opt.CleanerBytesPerSecond/int64(len(places)), 1)
	}
	dirs, errs := make([]*Dir, len(places)), make([]error, len(places))
	var wg sync.WaitGroup
	for i := range places {
		wg.Go(func() {
			var err error
			if dirs[i], err = OpenDir(places[i], opt); err != nil {
				errs[i] = &DirError{places[i].Path, places[i].Journal, err}
			}
		})
	}
	wg.Wait()
	m := &Manager{dirs: dirs, logs: map[ID]*Log{}}
	err := errors.Join(errs...)
	for _, d := range dirs {
		if d == nil || err != nil {
			continue
		}
		for _, l := range d.Logs() {
			if other := m.logs[l.id]; other != nil {
				err = fmt.Errorf("%s stands in %s and in %s: remove one of them", l, other.dir.path, d.path)
				break
			}
			m.logs[l.id] = l
		}
	}
	if err == nil {
		return m, nil
	}
	for _, d := range dirs {
		if d != nil {
			_ = d.Close()
		}
	}
	return nil, err
}

// Dirs returns the log directories in the order of the configuration.
func (m *Manager) Dirs() []*Dir { return m.dirs }

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

// Create makes logs, each in the usable directory that holds the fewest (one with
// little space only where all have), and
// returns them in the order of specs when their birth is durable.
func (m *Manager) Create(specs []Spec) ([]*Log, error) {
	counts := make(map[*Dir]int, len(m.dirs))
	for _, d := range m.dirs {
		if d.Err() == nil && d.Room() == nil {
			counts[d] = len(d.Logs())
		}
	}
	if len(counts) == 0 { // clients were refused already; what comes here must be made
		for _, d := range m.dirs {
			if d.Err() == nil {
				counts[d] = len(d.Logs())
			}
		}
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("%w: no log directory takes records now", ErrFailed)
	}
	byDir, order := map[*Dir][]Spec{}, make([]ID, 0, len(specs))
	for _, s := range specs {
		var best *Dir
		for _, d := range m.dirs {
			if n, ok := counts[d]; ok && (best == nil || n < counts[best]) {
				best = d
			}
		}
		counts[best]++
		byDir[best] = append(byDir[best], s)
		order = append(order, s.ID)
	}
	for d, list := range byDir {
		logs, err := d.Create(list)
		if err != nil {
			return nil, err
		}
		m.mu.Lock()
		for _, l := range logs {
			m.logs[l.id] = l
		}
		m.mu.Unlock()
	}
	made := make([]*Log, len(order))
	for i, id := range order {
		made[i] = m.Get(id)
	}
	return made, nil
}

// Delete removes logs; see Dir.Delete. A log that isn't there is no error.
func (m *Manager) Delete(ids ...ID) error {
	byDir := map[*Dir][]*Log{}
	m.mu.Lock()
	for _, id := range ids {
		if l := m.logs[id]; l != nil {
			byDir[l.dir] = append(byDir[l.dir], l)
			delete(m.logs, id)
		}
	}
	m.mu.Unlock()
	var errs []error
	for d, logs := range byDir {
		errs = append(errs, d.Delete(logs...))
	}
	return errors.Join(errs...)
}

// Close closes all directories; see Dir.Close.
func (m *Manager) Close() error {
	errs := make([]error, len(m.dirs))
	var wg sync.WaitGroup
	for i, d := range m.dirs {
		wg.Go(func() { errs[i] = d.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
