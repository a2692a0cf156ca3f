package storage

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// A log that lacks records which other replicas have is made anew: it is set aside, and a new log
// in its place copies all of them. Setting aside is a deletion that keeps the files under another
// name, until RemoveAside. So nothing that the log still has is gone before a whole copy exists.
//
//	rename to the aside name ─▶ sync the directory ─▶ checkpoint with a tombstone ─▶ a new log
//
// A crash before the checkpoint leaves a log that is listed and has no files. That is damage, for
// which the log is set aside again, with nothing left to rename.

func asideName(id ID) string { return stem(id) + asideSuffix }

// AsideOf returns the log that was set aside under a name.
func AsideOf(name string) (id ID, ok bool) {
	var topic []byte
	_, err := fmt.Sscanf(name, "%32x-%d", &topic, &id.Partition)
	if err != nil || len(topic) != len(id.Topic) {
		return ID{}, false
	}
	copy(id.Topic[:], topic)
	return id, asideName(id) == name
}

// Flaw returns why the log lacks records that it should have, nil as far as is known if it has all:
// stored bytes are wrong or missing.
func (l *Log) Flaw() error {
	if l.state() == loglife.Damaged {
		return l.Offline()
	}
	return l.Damaged()
}

// Flawed returns the logs with a Flaw. It is called often, and examines no log if none had one
// since the start.
func (d *Dir) Flawed() (logs []*Log) {
	if !d.flawed.Load() {
		return nil
	}
	for _, l := range d.Logs() {
		if l.Flaw() != nil {
			logs = append(logs, l)
		}
	}
	return logs
}

// Flawed returns the logs with a Flaw.
func (m *Manager) Flawed() (logs []*Log) {
	for _, d := range m.dirs {
		logs = append(logs, d.Flawed()...)
	}
	return logs
}

// Aside is a log that was set aside.
type Aside struct {
	ID
	Since time.Time
	Bytes int64
	dir   *Dir
}

// Crowded reports whether the directory with the files is low on space.
func (a *Aside) Crowded() bool { return a.dir.CanCreate() != nil }

// Asides returns the logs that were set aside, whose files still exist.
func (m *Manager) Asides() (all []Aside) {
	for _, d := range m.dirs {
		d.mu.Lock()
		all = slices.AppendSeq(all, maps.Values(d.asides))
		d.mu.Unlock()
	}
	return all
}

// SetAside takes logs out of use, and keeps their files until RemoveAside. As after Delete, logs
// with the same ids can be created then. A missing log is no error. After an error the logs are out
// of use; another call completes what this one began.
func (m *Manager) SetAside(ids ...ID) error {
	byDir := map[*Dir][]*Log{}
	m.mu.RLock()
	for _, id := range ids {
		if l := m.logs[id]; l != nil && !slices.Contains(byDir[l.dir], l) {
			byDir[l.dir] = append(byDir[l.dir], l)
		}
	}
	m.mu.RUnlock()
	return m.concurrently(slices.Collect(maps.Keys(byDir)), func(d *Dir) error {
		if err := d.remove(byDir[d], true); err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, l := range byDir[d] {
			if m.logs[l.id] == l {
				delete(m.logs, l.id)
			}
		}
		return nil
	})
}

// RemoveAside removes the files of logs that were set aside, in the background.
func (m *Manager) RemoveAside(all ...Aside) {
	for _, a := range all {
		a.dir.removeAside(a.ID)
	}
}

// keep renames the directories of logs, so that no new log finds their files. The files of
// quarantined frames that their entries name go along. If an earlier log is still set aside, the later
// one was an incomplete copy, and its files are removed as those of any deleted log.
func (d *Dir) keep(logs []*Log, entries []checkpoint.Log) error {
	fsys := d.opt.FS
	for i, l := range logs {
		to := path.Join(d.path, asideName(l.id))
		if _, err := fsys.Stat(to); err == nil || !Belongs(fsys, l.path, l.id) {
			continue
		}
		if err := fsys.Rename(l.path, to); err != nil {
			return fmt.Errorf("set %s aside: %w", l, err)
		}
		if name := entries[i].QuarantineFile; name != "" {
			if err := fsys.Rename(path.Join(d.path, name), path.Join(to, name)); err != nil {
				return fmt.Errorf("set %s aside: %w", l, err)
			}
		}
		d.log.Warn("a damaged log is set aside until there is a whole copy in its place", zap.Stringer("log", l), zap.String("as", to))
		d.findAside(path.Base(to))
	}
	if err := fsys.SyncDir(d.path); err != nil {
		return fmt.Errorf("set %d logs aside: %w", len(logs), err)
	}
	return nil
}

// findAside notes the directory of a log that was set aside. It reports whether it is one.
func (d *Dir) findAside(name string) bool {
	id, ok := AsideOf(name)
	if !ok {
		return false
	}
	a := Aside{ID: id, Since: d.now(), dir: d}
	infos, err := d.opt.FS.List(path.Join(d.path, name))
	if err != nil {
		d.logOnce(nil, "a log that was set aside could not be listed", err)
	}
	for _, in := range infos {
		a.Bytes += in.Size
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asides[id] = a
	return true
}

// removeAside removes the files of a log that was set aside. If that fails, the next start finds
// the rest.
func (d *Dir) removeAside(id ID) {
	d.mu.Lock()
	_, is := d.asides[id]
	delete(d.asides, id)
	d.mu.Unlock()
	if !is {
		return
	}
	d.run(func() {
		name := path.Join(d.path, asideName(id))
		if err := d.opt.FS.RemoveAll(name); err != nil {
			d.logOnce(nil, "files of a log that was set aside could not be removed", err)
			return
		}
		d.log.Info("what was set aside is removed", zap.String("dir", name))
	})
}
