package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// A log that lacks records which other replicas have is made again: it is replaced, and a new log
// in its place copies all of them. Replacing is a deletion that keeps the files under another
// name, until RemoveReplaced. So nothing that the log still has is gone before a whole copy exists.
//
//	rename to another name ─▶ sync the directory ─▶ checkpoint with a tombstone ─▶ a new log
//
// A crash before the checkpoint leaves a log that is listed and has no files; the next start
// continues with the tombstone.

// replacedName returns the name of the files of a log that was replaced in a leader epoch.
func replacedName(id ID, epoch int32) string {
	return fmt.Sprintf("%s-%d"+replacedSuffix, stem(id), epoch)
}

// ReplacedID returns the log that was replaced under a name, and the leader epoch.
func ReplacedID(name string) (id ID, epoch int32, ok bool) {
	var topic []byte
	_, err := fmt.Sscanf(name, "%32x-%d-%d", &topic, &id.Partition, &epoch)
	if err != nil || len(topic) != len(id.Topic) {
		return ID{}, 0, false
	}
	copy(id.Topic[:], topic)
	return id, epoch, replacedName(id, epoch) == name
}

// errPartial is the Flaw of a log that was repaired, of one that was compacted because of records
// which an unclean election has discarded since, and of one whose disk has lost records unnoticed.
var errPartial = errors.New("another replica has records that this log lacks, or may have them: a repair left them out, " +
	"the disk has lost them, or compaction removed them because of records which an unclean election discarded")

// Flaw returns why the log lacks records that it should have, nil as far as is known if it has all:
// stored bytes are wrong or missing, a repair left them out, or compaction has removed them because
// of records that were truncated.
func (l *Log) Flaw() error {
	if l.state() == loglife.Damaged {
		return l.Offline()
	}
	if err := l.Damaged(); err != nil {
		return err
	}
	if l.partial.Load() {
		return errPartial
	}
	if a := l.Absent(); a != nil {
		return a
	}
	return nil
}

// Lacks states that another replica has records that this log should have and lacks, and why. Lacks
// does not wait for the disk: a start after a crash may find that nothing is known of it.
func (l *Log) Lacks(why string) {
	if !l.partial.CompareAndSwap(false, true) {
		return
	}
	l.dir.suspects.Name(l)
	l.dir.log.Error("the log lacks records that another replica has, and counts as damaged; see chronikctl cluster health",
		zap.Stringer("log", l),
		zap.String("because", why))
	l.storePartial()
}

// storePartial has the mark of a partial log committed in the background.
func (l *Log) storePartial() {
	l.dir.run(func() {
		if err := l.dir.commit(l); err != nil {
			l.dir.logOnce(l, "the checkpoint does not show yet whether a log counts as damaged; the next start may be wrong about it", err)
		}
	})
}

// Whole states that no other replica has what this one lacks: it leads. Otherwise the log would
// follow with a hole that no comparison of ends finds. Whole does not wait for the disk: a start
// after a crash may find that the log is not whole yet.
func (l *Log) Whole() {
	if !l.partial.CompareAndSwap(true, false) {
		return
	}
	l.storePartial()
}

// Flawed returns the logs with a Flaw.
func (d *Dir) Flawed() (logs []*Log) {
	for _, l := range d.Faulty() {
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

// ReplacedLog is a log that was replaced.
type ReplacedLog struct {
	ID
	Epoch int32 // the leader epoch in which it was replaced
	Path  string
	Since time.Time
	Bytes int64
	dir   *Dir
}

// LowOnSpace reports whether the directory with the files is low on space.
func (a *ReplacedLog) LowOnSpace() bool { return a.dir.CanCreate() != nil }

// Replaced returns the logs that were replaced, whose files still exist.
func (m *Manager) Replaced() (all []ReplacedLog) {
	for _, d := range m.dirs {
		d.mu.Lock()
		all = slices.AppendSeq(all, maps.Values(d.replaced))
		d.mu.Unlock()
	}
	return all
}

// Replace takes logs out of use, and keeps their files until RemoveReplaced. As after Delete, logs
// with the same ids can be created then. A missing log is no error. After an error the logs are out
// of use; another call completes what this one began.
func (m *Manager) Replace(ids ...ID) error {
	byDir := map[*Dir][]*Log{}
	m.mu.Lock()
	ids, moving := m.unmoveLocked(ids)
	for _, id := range ids {
		if l := m.logs[id]; l != nil && !slices.Contains(byDir[l.dir], l) {
			byDir[l.dir] = append(byDir[l.dir], l)
		}
	}
	m.mu.Unlock()
	return errors.Join(moving, m.concurrently(slices.Collect(maps.Keys(byDir)), func(d *Dir) error {
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
	}))
}

// replaceNamesakes replaces logs of other topics that have the names of logs to be created. After
// a restore, the metadata may be older than a log and lack its topic, while a new topic has the
// name. The log may be the only copy, so what only the journal has is written to its segments
// first.
func (m *Manager) replaceNamesakes(d *Dir, specs []Spec) error {
	var former []*Log
	for _, s := range specs {
		some, err := d.namesakes(s)
		if err != nil {
			return err
		}
		former = append(former, some...)
	}
	if len(former) == 0 {
		return nil
	}
	for _, l := range former {
		if l.Offline() != nil { // its frames are in a file
			continue
		}
		l.acquireCommit()
		err := l.flushAll()
		l.releaseCommit()
		if err != nil {
			return fmt.Errorf("set %s of another topic aside: %w", l, err)
		}
	}
	// The next attempt may not find them as namesakes any longer: their files are renamed before
	// the checkpoint is written, and Create completes that.
	err := d.remove(former, true)
	left := d.Logs()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range former {
		if !slices.Contains(left, l) {
			delete(m.logs, l.id)
		}
	}
	return err
}

// namesakes returns the logs of other topics whose files have the names of a log to be created.
func (d *Dir) namesakes(s Spec) (list []*Log, err error) {
	name := fmt.Sprintf("%s-%d", s.Topic, s.ID.Partition)
	if there, err := present(d.opt.FS, path.Join(d.path, name)); err != nil {
		return nil, fmt.Errorf("create log %s: %w", name, err)
	} else if !there {
		return nil, nil
	}
	for _, l := range d.Logs() {
		if l.id != s.ID && l.topic == s.Topic && l.id.Partition == s.ID.Partition {
			list = append(list, l)
		}
	}
	return list, nil
}

// RemoveReplaced removes the files of logs that were replaced, in the background.
func (m *Manager) RemoveReplaced(all ...ReplacedLog) {
	for _, a := range all {
		a.dir.removeReplaced(a.ID)
	}
}

// retain renames the directories of logs, so that no new log finds their files. The files of
// quarantined frames that their entries name go along. If an earlier log is still needed, the later
// one was an incomplete copy, and is deleted as any other.
func (d *Dir) retain(logs []*Log, entries []checkpoint.Log) error {
	fsys := d.opt.FS
	for i, l := range logs {
		d.mu.Lock()
		_, had := d.replaced[l.id]
		d.mu.Unlock()
		if had {
			continue
		}
		if own, err := Belongs(fsys, l.path, l.id); err != nil {
			return fmt.Errorf("replace %s: %w", l, err)
		} else if !own {
			continue
		}
		if err := d.retainFrames(l, entries[i].QuarantineFile); err != nil {
			return fmt.Errorf("replace %s: %w", l, err)
		}
		to := path.Join(d.path, replacedName(l.id, max(l.LeaderEpoch(), 0)))
		if err := fsys.RemoveAll(to); err != nil { // the rest of one that is being removed
			return fmt.Errorf("replace %s: %w", l, err)
		}
		if err := fsys.Rename(l.path, to); err != nil {
			return fmt.Errorf("replace %s: %w", l, err)
		}
		d.log.Warn("a log is replaced, and its files are kept", zap.Stringer("log", l), zap.String("as", to))
		d.findReplaced(path.Base(to))
	}
	if err := fsys.SyncDir(d.path); err != nil {
		return fmt.Errorf("replace %d logs: %w", len(logs), err)
	}
	return nil
}

// retainFrames moves a file of quarantined frames to the log's directory. That comes before the
// directory is renamed: afterwards a start would take the file for an abandoned one. A crash in
// between leaves a log whose frames are missing, which is replaced again.
func (d *Dir) retainFrames(l *Log, name string) error {
	if name == "" {
		return nil
	}
	err := d.opt.FS.Rename(path.Join(d.path, name), path.Join(l.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an earlier attempt has moved it, or it is the missing one
	}
	if err != nil {
		return err
	}
	return d.opt.FS.SyncDir(l.path)
}

// findReplaced notes the directory of a log that was replaced. It reports whether it is one.
func (d *Dir) findReplaced(name string) bool {
	id, epoch, ok := ReplacedID(name)
	if !ok {
		return false
	}
	a := ReplacedLog{ID: id, Epoch: epoch, Path: path.Join(d.path, name), Since: d.now(), dir: d}
	infos, err := d.opt.FS.List(a.Path)
	if err != nil {
		d.logOnce(nil, "a replaced log could not be listed", err)
	}
	for _, in := range infos {
		a.Bytes += in.Size
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replaced[id] = a
	return true
}

// removeReplaced removes the files of a log that was replaced. If that fails, the next start finds
// the rest.
func (d *Dir) removeReplaced(id ID) {
	d.mu.Lock()
	a, is := d.replaced[id]
	delete(d.replaced, id)
	d.mu.Unlock()
	if !is {
		return
	}
	d.run(func() {
		name := path.Join(d.path, replacedName(id, a.Epoch))
		if err := d.opt.FS.RemoveAll(name); err != nil {
			d.logOnce(nil, "files of a replaced log could not be removed", err)
			return
		}
		d.log.Info("files of a replaced log are removed", zap.String("dir", name))
	})
}
