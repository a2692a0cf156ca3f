package storage

import (
	"errors"
	"fmt"
	"maps"
	"path"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// Delete deletes logs of the directory, with one checkpoint for all of them. When it returns
// without error the deletion is durable: no start brings the logs back. Their files are removed in
// the background.
func (d *Dir) Delete(logs ...*Log) error {
	if err := d.remove(logs, false); err != nil {
		return err
	}
	for _, l := range logs {
		d.removeReplaced(l.id)
	}
	return nil
}

// remove is Delete. If keep is set, the files of the logs are replaced.
func (d *Dir) remove(logs []*Log, keep bool) error {
	entries := make([]checkpoint.Log, len(logs))
	var frames []string
	for i, l := range logs {
		l.acquireCommit()
		if was := l.applyEvent(loglife.Deletion, fmt.Errorf("%s: %w", l, ErrClosed)); was.Allows(loglife.AsFound) {
			d.stats.offline.Dec()
		}
		d.journal.Drop(l.stream)
		l.releaseCommit()
		l.flushMu.Lock() // waits for a flush to end
		if entries[i], _ = l.checkpointed(false); entries[i].QuarantineFile != "" {
			frames = append(frames, entries[i].QuarantineFile)
		}
		l.mu.RLock() // a repair may be ending
		frames = append(frames, l.life.spent...)
		l.mu.RUnlock()
		d.steps.Add(1)
	}
	defer func() {
		for _, l := range logs {
			l.flushMu.Unlock()
		}
	}()
	if keep {
		if err := d.retain(logs, entries); err != nil {
			return err
		}
	}
	gone, deleted := d.putTombstones(logs, entries)
	if len(gone) == 0 {
		return d.ascertain() // an earlier attempt may have failed
	}
	err := d.commit(logs...)
	d.releaseLogs(gone) // also after an error: no goroutine flushes the logs any longer
	if err != nil {
		d.unsure.Store(true)
		return fmt.Errorf("delete %d logs, %s first: %w", len(logs), logs[0], err)
	}
	if keep {
		frames = nil // they are also replaced
	}
	d.removeFrames(frames)
	return d.removeDeleted(deleted)
}

// releaseLogs fails what is still in flight in deleted logs, and releases their memory.
func (d *Dir) releaseLogs(logs []*Log) {
	for _, l := range logs {
		l.observer().Reverted(l.Ends().Written, fmt.Errorf("%s: %w", l, ErrClosed))
		for _, s := range l.segments {
			s.Forget()
		}
		l.producersMu.Lock()
		l.producers = l.noProducers() // who has the log still must not count its transactions again
		l.noteUnstableLocked()
		l.producersMu.Unlock()
	}
	d.memory.evictAll(logs)
}

// putTombstones replaces the logs that the directory knows with tombstones, in one step: a
// checkpoint holds either a log or its tombstone.
func (d *Dir) putTombstones(logs []*Log, entries []checkpoint.Log) (gone []*Log, deleted []checkpoint.Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, l := range logs {
		if _, known := d.logs[l.id]; known {
			e := entries[i]
			e.Deleted, e.Offline, e.QuarantineFile, e.Producers, e.Epochs = true, "", "", nil, epochs.Cache{}
			e.LSN = max(d.journal.Assigned(), 1)
			d.deleted[l.id] = tombstone{Log: e}
			gone, deleted = append(gone, l), append(deleted, e)
		}
		delete(d.logs, l.id)
	}
	d.relistLocked()
	return gone, deleted
}

// removeDeleted removes the directories of deleted logs. If some cannot be removed, it continues
// with the others and returns the errors.
func (d *Dir) removeDeleted(deleted []checkpoint.Log) error {
	var errs []error
	gone := make([]*checkpoint.Log, 0, len(deleted))
	for i := range deleted {
		l := &deleted[i]
		from, to := path.Join(d.path, l.String()), d.deletedPath(l)
		own, err := Belongs(d.opt.FS, from, l.ID)
		if own {
			_ = d.opt.FS.RemoveAll(to) // of an earlier log with the same id
			err = d.opt.FS.Rename(from, to)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("delete %s: %w", from, err))
			continue
		}
		gone = append(gone, l)
		d.steps.Add(1)
	}
	if err := d.opt.FS.SyncDir(d.path); err != nil {
		return fmt.Errorf("delete %d logs: %w", len(deleted), errors.Join(append(errs, err)...))
	}
	d.mu.Lock()
	for _, l := range gone {
		if t, ok := d.deleted[l.ID]; ok {
			t.gone = true
			d.deleted[l.ID] = t
		}
	}
	d.mu.Unlock()
	d.run(func() {
		for _, l := range gone {
			if err := d.opt.FS.RemoveAll(d.deletedPath(l)); err != nil {
				d.logOnce(nil, "files of a deleted partition could not be removed", err) // the next start tries again
			}
		}
	})
	return errors.Join(errs...)
}

// leftOf returns the entries of those logs of which a failed deletion may have left files.
func (d *Dir) leftOf(ids []ID) (left []checkpoint.Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		if t, ok := d.deleted[id]; ok && !t.gone {
			left = append(left, t.Log)
		}
	}
	return left
}

// finishDeletion completes deletions that failed: it makes them durable if they are not, and
// removes the directories.
func (d *Dir) finishDeletion(left []checkpoint.Log) error {
	if err := d.ascertain(); err != nil {
		return err
	}
	return d.removeDeleted(left)
}

// isDeleted reports whether a partition directory belongs to a log with a tombstone.
func (d *Dir) isDeleted(dir string) (bool, error) {
	d.mu.Lock()
	deleted := maps.Clone(d.deleted)
	d.mu.Unlock()
	for id := range deleted {
		if own, err := Belongs(d.opt.FS, dir, id); own || err != nil {
			return own, err
		}
	}
	return false, nil
}

// logsAndDeleted returns the logs and the tombstones of the same moment, so that a checkpoint never
// has both for one log.
func (d *Dir) logsAndDeleted() ([]*Log, map[ID]tombstone) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.logsLocked(), maps.Clone(d.deleted)
}

// tombstones returns the checkpoint entries of deleted logs. It forgets those whose frames and
// files are gone.
func (d *Dir) tombstones(deleted map[ID]tombstone, redo journal.LSN) []checkpoint.Log {
	var list []checkpoint.Log
	for id, t := range deleted {
		if !t.gone || t.Swapping || t.LSN >= redo {
			list = append(list, t.Log)
			continue
		}
		d.mu.Lock()
		if d.deleted[id].LSN == t.LSN {
			delete(d.deleted, id)
		}
		d.mu.Unlock()
	}
	return list
}
