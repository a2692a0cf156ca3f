package storage

import (
	"fmt"
	"maps"
	"slices"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
)

// CreateIn makes logs in the directory that Place chose for them, all or none, and returns
// them in the order of specs when their birth is durable. It does not wait for a disk that
// hangs, where the logs may still be made later; see concurrently.
func (m *Manager) CreateIn(d *Dir, specs []Spec) ([]*Log, error) {
	if err := m.concurrently([]*Dir{d}, func(d *Dir) error { return m.createIn(d, specs) }); err != nil {
		return nil, err
	}
	made := make([]*Log, len(specs))
	for i := range specs {
		made[i] = m.Get(specs[i].ID)
	}
	return made, nil
}

// Place chooses a directory for each log, the usable one with the fewest, and notes that its
// creation begins there: until CreateIn has ended, or Delete has taken that back, the log is
// made in no other. A directory with little space is chosen only if all have little, and one
// that avoid names only if all others are unusable; nil avoids none.
func (m *Manager) Place(specs []Spec, avoid map[*Dir]bool) (map[*Dir][]Spec, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := m.candidatesLocked(avoid)
	byDir := map[*Dir][]Spec{}
	for _, s := range specs {
		if m.logs[s.ID] != nil {
			return nil, fmt.Errorf("create log %s-%d: %w", s.Topic, s.ID.Partition, ErrExists)
		}
		best := m.begun[s.ID]
		if best == nil {
			for _, d := range m.dirs {
				if n, ok := counts[d]; ok && (best == nil || n < counts[best]) {
					best = d
				}
			}
			if best == nil {
				return nil, fmt.Errorf("%w: no log directory takes records now", ErrFailed)
			}
			counts[best]++
		}
		byDir[best] = append(byDir[best], s)
	}
	for d, list := range byDir {
		for _, s := range list {
			m.begun[s.ID] = d
		}
	}
	return byDir, nil
}

// Unplace takes the choice of directories back for logs that were not made, so that Place may
// choose others. A choice stays where the log may exist: in a directory that hangs, or whose
// checkpoint may name it.
func (m *Manager) Unplace(ids []ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if d := m.begun[id]; d != nil && m.late[d] == 0 && !d.unsure.Load() {
			delete(m.begun, id)
		}
	}
}

// candidatesLocked returns the directories that take new logs, with how many logs each has or is to get:
// those with room that need not be avoided, else those with room, else all that take records:
// a client was refused already then, and what is asked for must be made.
func (m *Manager) candidatesLocked(avoid map[*Dir]bool) map[*Dir]int {
	quick, roomy, all := map[*Dir]int{}, map[*Dir]int{}, map[*Dir]int{}
	for _, d := range m.dirs {
		if d.Err() != nil || m.hungLocked(d) != nil {
			continue
		}
		all[d] = len(d.Logs())
		if d.CanCreate() == nil {
			if roomy[d] = all[d]; !avoid[d] {
				quick[d] = all[d]
			}
		}
	}
	counts := all
	if len(quick) > 0 {
		counts = quick
	} else if len(roomy) > 0 {
		counts = roomy
	}
	for _, d := range m.begun { // whose turn has not come yet
		if _, ok := counts[d]; ok {
			counts[d]++
		}
	}
	return counts
}

// createIn makes logs in one directory and takes them over, also when nobody waits for that
// any more.
func (m *Manager) createIn(d *Dir, specs []Spec) error {
	logs, err := d.Create(specs)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range logs {
		m.logs[l.id] = l
	}
	for i := range specs {
		if err == nil || !d.unsure.Load() {
			delete(m.begun, specs[i].ID)
		}
	}
	return err
}

// Delete removes logs; see Dir.Delete. A log that isn't there is no error. After an error
// the logs are out of use, and the next start may find some of them again; another call
// completes the deletion.
func (m *Manager) Delete(ids ...ID) error {
	byDir, begun, left := map[*Dir][]*Log{}, map[*Dir][]ID{}, map[*Dir][]checkpoint.Log{}
	m.mu.Lock()
	for _, id := range ids {
		if l := m.logs[id]; l != nil {
			byDir[l.dir] = append(byDir[l.dir], l)
			if m.hungLocked(l.dir) == nil { // otherwise nothing is begun, and the next call must find it
				delete(m.logs, id)
			}
		} else if d := m.begun[id]; d != nil {
			byDir[d] = append(byDir[d], nil...)
			begun[d] = append(begun[d], id)
		}
	}
	for _, d := range m.dirs {
		if some := d.leftOf(ids); len(some) > 0 {
			byDir[d], left[d] = append(byDir[d], nil...), some
		}
	}
	m.mu.Unlock()
	return m.concurrently(slices.Collect(maps.Keys(byDir)), func(d *Dir) error {
		if len(left[d]) > 0 {
			if err := d.finishDeletion(left[d]); err != nil {
				return err
			}
		}
		if len(begun[d]) > 0 {
			if err := m.unborn(d, begun[d]); err != nil {
				return err
			}
		}
		return d.Delete(byDir[d]...)
	})
}

// unborn makes sure that no start finds logs whose creation failed in a directory.
func (m *Manager) unborn(d *Dir, ids []ID) error {
	if err := d.ascertain(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.begun, id)
	}
	return nil
}
