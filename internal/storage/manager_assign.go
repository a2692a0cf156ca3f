package storage

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
)

// CreateIn creates logs in the directory that AssignDirs chose for them, all or none. It returns
// them in the order of specs once their creation is durable. It does not wait for a hung disk, on
// which the logs may still be created later; see concurrently.
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

// AssignDirs chooses a directory for each log, the usable one with the fewest logs, and records
// that the creation begins there. Until CreateIn has ended, or UnassignDirs or Delete has revoked
// the choice, the log is created in no other directory. AssignDirs chooses a directory that is low
// on space only if all are, and one in avoid, or one that is being emptied, only if all others are
// unusable. A nil avoid is empty.
func (m *Manager) AssignDirs(specs []Spec, avoid map[*Dir]bool) (map[*Dir][]Spec, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := m.candidatesLocked(avoid)
	byDir := map[*Dir][]Spec{}
	for _, s := range specs {
		if m.logs[s.ID] != nil {
			return nil, fmt.Errorf("create log %s-%d: %w", s.Topic, s.ID.Partition, ErrExists)
		}
		best := m.begun[s.ID]
		if _, can := counts[m.preferred[s.ID]]; best == nil && can {
			best = m.preferred[s.ID]
		}
		if best == nil {
			for _, d := range m.dirs {
				if n, ok := counts[d]; ok && (best == nil || n < counts[best]) {
					best = d
				}
			}
			if best == nil {
				return nil, fmt.Errorf("%w: no log directory accepts records now", ErrFailed)
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

// UnassignDirs revokes the choice of directories for logs that were not created, so that AssignDirs
// may choose others. A choice stays if the log may exist: in a hung directory, or in one whose
// checkpoint may name it.
func (m *Manager) UnassignDirs(ids []ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if d := m.begun[id]; d != nil && m.late[d] == 0 && !d.unsure.Load() {
			delete(m.begun, id)
		}
	}
}

// candidatesLocked returns the directories that may get new logs, with the number of logs that each
// has or will get. It prefers directories with space that are neither in avoid nor being emptied,
// then those with space, then all that accept records: clients are refused earlier, so these logs
// must be created. The caller holds mu.
func (m *Manager) candidatesLocked(avoid map[*Dir]bool) map[*Dir]int {
	quick, roomy, all := map[*Dir]int{}, map[*Dir]int{}, map[*Dir]int{}
	emptied := m.emptiedLocked()
	for _, d := range m.dirs {
		if d.Err() != nil || m.hungLocked(d) != nil {
			continue
		}
		all[d] = len(d.Logs())
		if d.CanCreate() == nil {
			if roomy[d] = all[d]; !avoid[d] && !emptied[d] {
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
	for _, d := range m.begun { // their creation has begun
		if _, ok := counts[d]; ok {
			counts[d]++
		}
	}
	return counts
}

// emptiedLocked returns the directories from which logs move, and to which none does: an operator
// may be about to remove them. The caller holds mu.
func (m *Manager) emptiedLocked() map[*Dir]bool {
	dirs := map[*Dir]bool{}
	for id, x := range m.moves {
		if l := m.logs[id]; l != nil && !x.canceled.Load() {
			dirs[l.dir] = true
		}
	}
	for _, x := range m.moves {
		delete(dirs, x.to)
	}
	return dirs
}

// createIn creates logs in one directory and adds them to the manager, even if no caller waits any
// longer.
func (m *Manager) createIn(d *Dir, specs []Spec) error {
	if err := m.copied(specs); err != nil {
		return err
	}
	if err := m.replaceNamesakes(d, specs); err != nil {
		return err
	}
	logs, err := d.Create(specs)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range logs {
		m.logs[l.id] = l
		delete(m.preferred, l.id)
	}
	for i := range specs {
		if err == nil || !d.unsure.Load() {
			delete(m.begun, specs[i].ID)
		}
	}
	return err
}

// copied returns an error if a directory has the copy of a log that could not be taken over.
func (m *Manager) copied(specs []Spec) error {
	for _, s := range specs {
		if d := m.copies[s.ID]; d != nil {
			return fmt.Errorf("%w: log %s-%d has moved to %s, or was about to, and the start could not use the copy: "+
				"correct what the broker's log reports, and restart the broker", ErrFailed, s.Topic, s.ID.Partition, d.path)
		}
	}
	return nil
}

// Delete deletes logs; see Dir.Delete. A missing log is no error. After an error the logs are out
// of use, and the next start may find some of them again; another call completes the deletion. Of
// these, a log whose move has just been committed is still there (ErrMoving).
func (m *Manager) Delete(ids ...ID) error {
	byDir, begun, left := map[*Dir][]*Log{}, map[*Dir][]ID{}, map[*Dir][]checkpoint.Log{}
	m.mu.Lock()
	ids, busy := m.unmoveLocked(ids)
	named := map[*Log]bool{}
	for _, id := range ids {
		if l := m.logs[id]; named[l] {
			continue // an id may be given repeatedly
		} else if l != nil {
			named[l] = true
			byDir[l.dir] = append(byDir[l.dir], l)
		} else if d := m.deleting[id]; d != nil {
			busy = errors.Join(busy, beingDeleted(d))
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
	return errors.Join(busy, m.concurrently(slices.Collect(maps.Keys(byDir)), func(d *Dir) error {
		err := m.deleteIn(d, byDir[d]) // first: the directory must know what the next call no longer finds in m.logs
		if len(left[d]) > 0 {
			err = errors.Join(err, d.finishDeletion(left[d]))
		}
		if len(begun[d]) > 0 {
			err = errors.Join(err, m.ascertainNotCreated(d, begun[d]))
		}
		return err
	}))
}

// deleteIn deletes logs in one directory, which are out of use at once. Until it has ended, which a
// disk that hangs prevents, other calls do not report them as deleted.
func (m *Manager) deleteIn(d *Dir, logs []*Log) (err error) {
	var own []*Log
	m.mu.Lock()
	for _, l := range logs {
		if m.logs[l.id] != l { // another call was first
			err = beingDeleted(d)
			continue
		}
		delete(m.logs, l.id)
		m.deleting[l.id] = d
		own = append(own, l)
	}
	m.mu.Unlock()
	err = errors.Join(err, d.Delete(own...))
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range own {
		delete(m.deleting, l.id)
	}
	return err
}

func beingDeleted(d *Dir) error {
	return fmt.Errorf("%w: a log in %s is still being deleted", ErrFailed, d.path)
}

// ascertainNotCreated ensures that no start finds logs whose creation in a directory failed.
func (m *Manager) ascertainNotCreated(d *Dir, ids []ID) error {
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
