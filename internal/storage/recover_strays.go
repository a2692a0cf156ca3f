package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/vfs"
)

// removeAbandonedFrames schedules the removal of quarantine files that no checkpoint names: either
// the checkpoint that would have named the file was never written, or the log has replayed it and a
// crash prevented the removal. In both cases the log has their records. Files of offline and
// unknown logs stay, because an operator may need them; so do those whose records the log may lack,
// because it was made again after its directory was lost.
func (r *recovery) removeAbandonedFrames(infos []vfs.Info) {
	files := map[ID]string{} // of the logs that need no other one; removed after the log has replayed it
	for i := range r.ckpt.Logs {
		lc := &r.ckpt.Logs[i]
		if f := r.found[lc.ID]; f == nil || f.err == nil {
			files[lc.ID] = lc.QuarantineFile
		}
	}
	for _, in := range infos {
		id, ok := framesOf(in.Name)
		if named, known := files[id]; ok && known && in.Name != named && r.holds(in.Name, id) {
			r.later(nil, func() error { return r.d.opt.FS.Remove(path.Join(r.d.path, in.Name)) })
		}
	}
}

// holds reports whether the log certainly has all records of a quarantine file: it has their
// offsets, and with the same epochs. A log that was made again may have others there. What is
// damaged in a file is not known. A deleted log needs none.
func (r *recovery) holds(name string, id ID) bool {
	f := r.found[id]
	if f == nil {
		return true
	}
	err := journal.ReadQuarantine(r.d.opt.FS, path.Join(r.d.path, name), func(fr journal.Frame) error {
		if fr.Stream != id || !f.l.has(&fr) {
			return errNotHeld
		}
		return nil
	})
	return err == nil
}

var errNotHeld = errors.New("the log lacks the frame")

// has reports whether the log has the offsets of a frame with the same epochs.
func (l *Log) has(fr *journal.Frame) bool {
	if fr.PrevEnd < l.logStart.Load() || fr.NextEnd > l.logEnd.Load() {
		return false
	}
	epochs := l.Epochs()
	if fr.Type == journal.Gap {
		return epochs.At(fr.NextEnd-1) == fr.Epoch
	}
	for p := fr.Payload; len(p) > 0; {
		b, rest, err := record.Next(p)
		if err != nil || epochs.At(b.BaseOffset()) != b.LeaderEpoch() || epochs.At(b.LastOffset()) != b.LeaderEpoch() {
			return false
		}
		p = rest
	}
	return fr.Type == journal.Batches
}

// quarantineDir renames a partition directory that the checkpoint does not list, so that no log
// uses its files and no records are lost. It removes the directory of a deleted log; one whose log
// the disk does not return is renamed.
func (d *Dir) quarantineDir(dirName string) error {
	from := path.Join(d.path, dirName)
	deleted, unread := d.isDeleted(from)
	switch {
	case deleted:
		return d.opt.FS.RemoveAll(from)
	case shortage(unread): // the next attempt knows it
		return fmt.Errorf("partition directory %s that the checkpoint does not list: %w", from, unread)
	}
	infos, err := d.opt.FS.List(from)
	if err != nil {
		return err
	}
	for _, in := range infos {
		if in.Name != PartitionFile && in.Size > 0 || unread != nil {
			to := path.Join(d.path, strayName(d.opt.FS, from))
			d.log.Warn("partition directory that the checkpoint does not list was quarantined", zap.String("from", from),
				zap.String("to", to), zap.Error(unread))
			return d.opt.FS.Rename(from, to)
		}
	}
	return d.opt.FS.RemoveAll(from) // a creation that was not completed
}

// quarantineStrays quarantines partition directories that the checkpoint does not list.
func (r *recovery) quarantineStrays() error {
	d := r.d
	infos, err := d.opt.FS.List(d.path)
	if err != nil {
		return fmt.Errorf("log directory: %w", err)
	}
	known := map[string]bool{}
	for _, f := range r.found {
		known[path.Base(f.l.path)] = true
	}
	r.removeAbandonedFrames(infos)
	defer r.finishReplacing()
	for _, in := range infos {
		if !in.Dir || known[in.Name] || path.Join(d.path, in.Name) == d.jpath {
			continue
		}
		if d.findFuture(in.Name) {
			continue
		}
		if _, err := d.opt.FS.Stat(path.Join(d.path, in.Name, PartitionFile)); d.findReplaced(in.Name) || err != nil {
			continue
		}
		r.later(nil, func() error {
			name := path.Join(d.path, in.Name)
			if IsDeletedName(in.Name) {
				return d.opt.FS.RemoveAll(name)
			}
			if _, err := d.opt.FS.Stat(name); errors.Is(err, fs.ErrNotExist) || IsStrayName(in.Name) {
				return nil
			}
			return d.quarantineDir(in.Name)
		})
	}
	return nil
}

// finishReplacing removes the logs from the checkpoint whose files a crash left under the name of a
// replaced log. Their metadata may be lost by now, and then no replica is made again in their
// place.
func (r *recovery) finishReplacing() {
	for _, f := range r.found {
		r.d.mu.Lock()
		_, replaced := r.d.replaced[f.l.id]
		r.d.mu.Unlock()
		if replaced && errors.Is(f.err, fs.ErrNotExist) {
			r.later(nil, func() error { return r.d.remove([]*Log{f.l}, true) })
		}
	}
}
