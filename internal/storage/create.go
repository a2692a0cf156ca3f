package storage

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/epochs"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Spec describes a log to be made.
type Spec struct {
	ID     ID
	Topic  string
	Config Config
	// LogStart is the first offset, 0 but for a replica that begins in the
	// middle of a history.
	LogStart int64
}

// Create makes logs and returns when their birth is durable: directories,
// topic ids, and one checkpoint that knows them all. On error none of them
// exists.
func (d *Dir) Create(specs []Spec) ([]*Log, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	if err := d.ascertain(); err != nil {
		return nil, err
	}
	logs, errs := make([]*Log, len(specs)), make([]error, len(specs))
	each(len(specs), func(i int) {
		if logs[i], errs[i] = d.makeLog(specs[i]); errs[i] != nil {
			errs[i] = fmt.Errorf("create log %s-%d: %w", specs[i].Topic, specs[i].ID.Partition, errs[i])
		}
		d.steps.Add(1)
	})
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return nil, errs[i]
	}
	if err := d.opt.FS.SyncDir(d.path); err != nil {
		return nil, fmt.Errorf("create logs: %w", err)
	}
	buried := d.add(logs)
	if err := d.commit(logs...); err != nil {
		d.forget(logs, buried)
		d.unsure.Store(true)
		return nil, fmt.Errorf("create logs: %w", err)
	}
	return logs, nil
}

// ascertain writes a checkpoint if the one on the disk may name logs whose creation or
// deletion failed. Until it is durable, a start may need their directories, so that none of
// them may be removed or renamed.
func (d *Dir) ascertain() error {
	if !d.unsure.Load() {
		return nil
	}
	if err := d.checkpoint(nil); err != nil {
		return fmt.Errorf("find out which logs the checkpoint names: %w", err)
	}
	return nil
}

func (d *Dir) makeLog(s Spec) (*Log, error) {
	d.mu.Lock()
	_, exists := d.logs[s.ID]
	d.mu.Unlock()
	if exists {
		return nil, ErrExists
	}
	dirName := fmt.Sprintf("%s-%d", s.Topic, s.ID.Partition)
	l := newLog(d, s.ID, s.Topic, dirName, s.Config)
	fsys := d.opt.FS
	if _, err := fsys.Stat(l.path); err == nil {
		// No checkpoint knows it: an earlier attempt ended half-way.
		if err := d.setAside(dirName); err != nil {
			return nil, err
		}
	}
	if err := fsys.MkdirAll(l.path); err != nil {
		return nil, err
	}
	if err := writePartitionMeta(fsys, l.path, s.ID); err != nil {
		return nil, err
	}
	l.logStart.Store(s.LogStart)
	l.startSynced.Store(s.LogStart)
	l.setEnds(s.LogStart)
	l.rp = checkpoint.Point{Offset: s.LogStart, LSN: d.journal.Assigned()}
	return l, nil
}

// writePartitionMeta puts the topic's id into the directory of a partition.
func writePartitionMeta(fsys vfs.FS, dir string, id ID) error {
	f, err := fsys.Create(path.Join(dir, partitionMeta))
	if err != nil {
		return err
	}
	_, err = f.WriteAt(partitionMetaOf(id), 0)
	if err == nil {
		err = f.Datasync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	return err
}

func partitionMetaOf(id ID) []byte {
	return fmt.Appendf(nil, "version: 0\ntopic_id: %s\n", base64.RawURLEncoding.EncodeToString(id.Topic[:]))
}

// add makes the directory know logs, and returns the tombstones that they replace.
func (d *Dir) add(logs []*Log) (buried []tombstone) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range logs {
		d.logs[l.id] = l
		if t, ok := d.deleted[l.id]; ok {
			buried = append(buried, t)
			delete(d.deleted, l.id)
		}
	}
	d.relistLocked()
	return buried
}

// forget is the opposite of add.
func (d *Dir) forget(logs []*Log, buried []tombstone) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range logs {
		delete(d.logs, l.id)
	}
	for _, t := range buried {
		d.deleted[t.entry.ID] = t
	}
	d.relistLocked()
}

// setAside renames a partition directory that no checkpoint knows, so that
// nothing in it is taken for a log's, and nothing is lost. What a deleted log left is
// removed.
func (d *Dir) setAside(dirName string) error {
	from := path.Join(d.path, dirName)
	if d.isDeleted(from) {
		return d.opt.FS.RemoveAll(from)
	}
	infos, err := d.opt.FS.List(from)
	if err != nil {
		return err
	}
	for _, in := range infos {
		if in.Name != partitionMeta && in.Size > 0 {
			to := fmt.Sprintf("%s.%x-stray", from, newID())
			d.log.Warn("a directory that no checkpoint knows was set aside", zap.String("from", from), zap.String("to", to))
			return d.opt.FS.Rename(from, to)
		}
	}
	return d.opt.FS.RemoveAll(from) // an unfinished birth
}

// strays sets aside partition directories that the checkpoint doesn't know.
func (r *recovery) strays() error {
	d := r.d
	infos, err := d.opt.FS.List(d.path)
	if err != nil {
		return fmt.Errorf("log directory: %w", err)
	}
	known := map[string]bool{}
	for _, f := range r.found {
		known[path.Base(f.l.path)] = true
	}
	r.abandonedFrames(infos)
	for _, in := range infos {
		if !in.Dir || known[in.Name] || path.Join(d.path, in.Name) == d.jpath {
			continue
		}
		if _, err := d.opt.FS.Stat(path.Join(d.path, in.Name, partitionMeta)); err != nil {
			continue
		}
		name := in.Name
		r.later(nil, func() error {
			if isDeletedName(name) {
				return d.opt.FS.RemoveAll(path.Join(d.path, name))
			}
			if _, err := d.opt.FS.Stat(path.Join(d.path, name)); errors.Is(err, fs.ErrNotExist) || isStray(name) {
				return nil
			}
			return d.setAside(name)
		})
	}
	return nil
}

func isStray(name string) bool {
	return path.Ext(name) != "" && len(name) > 6 && name[len(name)-6:] == "-stray"
}

// Delete removes logs of the directory, with one checkpoint for all of them. When
// it returns without error the deletion is durable: no start brings the logs back;
// their files go in the background.
func (d *Dir) Delete(logs ...*Log) error {
	entries := make([]checkpoint.Log, len(logs))
	for i, l := range logs {
		l.own()
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		d.journal.Drop(l.stream)
		l.disown()
		l.flushMu.Lock() // whoever flushes has finished
		entries[i], _ = l.checkpointed()
		d.steps.Add(1)
	}
	defer func() {
		for _, l := range logs {
			l.flushMu.Unlock()
		}
	}()
	gone := d.bury(logs, entries)
	if len(gone) == 0 {
		return d.ascertain() // an earlier attempt may have failed
	}
	err := d.commit(logs...)
	d.letGo(gone) // also after an error: nobody flushes them any more
	if err != nil {
		d.unsure.Store(true)
		return fmt.Errorf("delete %d logs, %s first: %w", len(logs), logs[0], err)
	}
	for i := range entries {
		if aside := entries[i].Aside; aside != "" {
			_ = d.opt.FS.Remove(path.Join(d.path, aside)) // it only takes space
		}
	}
	return d.removeDeleted(gone)
}

// letGo ends what is still going on in deleted logs, and gives their memory back.
func (d *Dir) letGo(gone []deletion) {
	logs := make([]*Log, len(gone))
	for i, g := range gone {
		l := g.log
		logs[i] = l
		l.observer().Reverted(l.Ends().Written, fmt.Errorf("%s: %w", l, ErrClosed))
		for _, s := range l.segments {
			s.Forget()
		}
		if l.failedForGood() {
			d.stats.offline.Dec()
		}
	}
	d.memory.evictAll(logs)
}

// bury puts tombstones in the place of the logs that the directory knows, all in
// one step: a checkpoint has either a log or its tombstone.
func (d *Dir) bury(logs []*Log, entries []checkpoint.Log) []deletion {
	d.mu.Lock()
	defer d.mu.Unlock()
	var gone []deletion
	for i, l := range logs {
		if _, known := d.logs[l.id]; known {
			e := entries[i]
			e.Deleted, e.Offline, e.Aside, e.Producers, e.Epochs = true, "", "", nil, epochs.Cache{}
			e.LSN = max(d.journal.Assigned(), 1)
			d.deleted[l.id] = tombstone{entry: e, lsn: e.LSN}
			gone = append(gone, deletion{l, l.id, path.Base(l.path)})
		}
		delete(d.logs, l.id)
		delete(d.broken, l)
	}
	d.relistLocked()
	return gone
}

// deletion names a log whose deletion is durable and its directory.
type deletion struct {
	log  *Log // nil where a start goes on with it
	id   ID
	name string
}

// removeDeleted removes the directories of deleted logs.
func (d *Dir) removeDeleted(gone []deletion) error {
	for _, g := range gone {
		from, to := path.Join(d.path, g.name), path.Join(d.path, deletedName(g.name, g.id))
		if d.belongsTo(from, g.id) {
			_ = d.opt.FS.RemoveAll(to) // of an earlier log with the same id
			if err := d.opt.FS.Rename(from, to); err != nil {
				return fmt.Errorf("delete %s: %w", from, err)
			}
		}
		d.steps.Add(1)
	}
	if err := d.opt.FS.SyncDir(d.path); err != nil {
		return fmt.Errorf("delete %d logs: %w", len(gone), err)
	}
	d.mu.Lock()
	for _, g := range gone {
		if t, ok := d.deleted[g.id]; ok {
			t.gone = true
			d.deleted[g.id] = t
		}
	}
	d.mu.Unlock()
	d.run(func() {
		for _, g := range gone {
			if err := d.opt.FS.RemoveAll(path.Join(d.path, deletedName(g.name, g.id))); err != nil {
				d.logOnce(nil, "files of a deleted partition could not be removed", err) // the next start tries again
			}
		}
	})
	return nil
}

// isDeleted reports whether a partition directory is that of a log with a tombstone.
func (d *Dir) isDeleted(dir string) bool {
	d.mu.Lock()
	deleted := maps.Clone(d.deleted)
	d.mu.Unlock()
	for id := range deleted {
		if d.belongsTo(dir, id) {
			return true
		}
	}
	return false
}

// belongsTo says whether a partition directory is that of the log with id, and
// not of a later one with the same name.
func (d *Dir) belongsTo(dir string, id ID) bool {
	f, err := d.opt.FS.Open(path.Join(dir, partitionMeta))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	n, err := f.Size()
	if err != nil || n > 1<<10 {
		return false
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil {
		return false
	}
	return bytes.Equal(b, partitionMetaOf(id))
}

// logsAndDeleted returns the logs and the tombstones of one moment, so that a checkpoint
// never has both for one log.
func (d *Dir) logsAndDeleted() ([]*Log, map[ID]tombstone) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list, maps.Clone(d.deleted)
}

// tombstones returns the checkpoint's entries for deleted logs, and forgets
// those of which nothing can be found any more.
func (d *Dir) tombstones(deleted map[ID]tombstone, redo journal.LSN) []checkpoint.Log {
	var list []checkpoint.Log
	for id, t := range deleted {
		if !t.gone || t.lsn >= redo {
			list = append(list, t.entry)
			continue
		}
		d.mu.Lock()
		if d.deleted[id].lsn == t.lsn {
			delete(d.deleted, id)
		}
		d.mu.Unlock()
	}
	return list
}
