package storage

import (
	"fmt"
	"path"
	"slices"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Spec describes a log to be created.
type Spec struct {
	ID     ID
	Topic  string
	Config Config
	// LogStart is the first offset: 0, except for a replica that begins in the middle of a history.
	LogStart int64
}

// Create creates logs and returns once the creation is durable: directories, topic ids, and one
// checkpoint that lists all of them. After an error none of them is in use. If the checkpoint
// failed, the one on the disk may list them until ascertain, and a start may find them.
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
	for _, l := range logs {
		l.applyEvent(loglife.Opened, nil)
	}
	return logs, nil
}

// ascertain writes a checkpoint if the one on the disk may name logs whose creation or deletion
// failed. Until it is durable, recovery may need the directories of these logs, so none of them may
// be removed or renamed.
func (d *Dir) ascertain() error {
	if !d.unsure.Load() {
		return nil
	}
	if err := d.checkpoint(nil); err != nil {
		return fmt.Errorf("rewrite the checkpoint after a failed creation or deletion: %w", err)
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
	l := newLog(d, s.ID, s.Topic, s.Config)
	fsys := d.opt.FS
	there, err := present(fsys, l.path)
	if err != nil {
		return nil, err
	}
	if there {
		// No checkpoint lists it (see replaceNamesakes): an earlier attempt was not completed.
		if err := d.quarantineDir(l.String()); err != nil {
			return nil, err
		}
	}
	if err := fsys.MkdirAll(l.path); err != nil {
		return nil, err
	}
	if err := writePartitionMeta(fsys, l.path, s.ID); err != nil {
		return nil, err
	}
	l.moveStart(s.LogStart)
	l.setEnds(s.LogStart)
	l.rp = checkpoint.Point{Offset: s.LogStart, LSN: d.journal.Assigned()}
	return l, nil
}

// writePartitionMeta writes the topic id into the directory of a partition.
func writePartitionMeta(fsys vfs.FS, dir string, id ID) error {
	if err := vfs.WriteFile(fsys, path.Join(dir, PartitionFile), partitionMetaOf(id), true); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// add registers logs in the directory and returns the tombstones that they replace.
func (d *Dir) add(logs []*Log) (buried []tombstone) {
	defer d.nameHeld(logs) // after mu is released
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

// forget reverts add.
func (d *Dir) forget(logs []*Log, buried []tombstone) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range logs {
		delete(d.logs, l.id)
	}
	for _, t := range buried {
		d.deleted[t.ID] = t
	}
	d.relistLocked()
}
