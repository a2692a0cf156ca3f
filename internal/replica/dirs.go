package replica

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/storage"
)

// Dirs returns this broker's usable log directories in the order of the configuration. The caller
// must not change the slice.
func (m *Manager) Dirs() []*storage.Dir { return m.opt.Storage.Dirs() }

// FailedDirs returns the log directories that could not be opened at startup. The caller must not
// change the slice.
func (m *Manager) FailedDirs() []*storage.DirError { return m.opt.Storage.Failed() }

// misplaced returns why a partition can use neither the log that was found, which may be nil, nor a
// new one; nil if it can use one of them. dir is the log's directory according to the metadata,
// zero if unknown. first is true if an earlier run may have created the log.
//
// A log that was created once is not created again if the partition's committed records may depend
// on it: an empty log in its place would hide the loss. That is the case unless other replicas are
// in sync or eligible and this one is not. In that case a log in another directory than recorded is
// used, too: the replica was removed and assigned again, and the process ended before it recorded
// the directory of the new log.
func (m *Manager) misplaced(w wanted, dir [16]byte, found *storage.Log, first bool) error {
	failed := m.FailedDirs()
	if found != nil {
		if at := found.Dir(); dir != [16]byte{} && dir != at.ID() && dir != found.MovedFrom() && (m.needed(w) || len(failed) > 0) {
			return fmt.Errorf("%w: the log of %s is in %s, but it was made in %s: "+
				"one of them is a copy; remove the log in %s and put that directory back, or delete the topic",
				ErrOffline, w, at.Path(), m.named(dir), at.Path())
		}
		return nil
	}
	for _, d := range failed {
		if dir != [16]byte{} && d.ID == dir {
			return fmt.Errorf("%w: the log of %s is in a log directory that could not be opened: %w", ErrOffline, w, d)
		}
	}
	switch {
	case dir != [16]byte{} && len(failed) > 0:
		return fmt.Errorf("%w: the log of %s is missing from %s, which may be the one that could not be opened: %w",
			ErrOffline, w, m.named(dir), failed[0])
	case dir != [16]byte{} && m.needed(w):
		last := "put the directory back"
		if len(w.topic.Partitions.At(w.partition).Replicas) > 1 {
			last = fmt.Sprintf("put the directory back; if that is impossible, chronikctl topic elect %s:%d --unclean elects another replica "+
				"without its records", w.topic.Name, w.partition)
		}
		return fmt.Errorf("%w: the log of %s is missing from %s; %s", ErrOffline, w, m.named(dir), last)
	case first && len(failed) > 0:
		return fmt.Errorf("%w: the log of %s may be in a log directory that could not be opened: %w", ErrOffline, w, failed[0])
	default:
		return nil
	}
}

// named returns how messages name a log directory of this broker that is not there.
func (m *Manager) named(dir [16]byte) string {
	if at := m.opt.DirPaths[dir]; at != "" {
		return fmt.Sprintf("log directory %x of broker %d, last in %s", dir, m.opt.Self, at)
	}
	return fmt.Sprintf("log directory %x of broker %d, whose path is not known", dir, m.opt.Self)
}

// needed reports whether the loss of this broker's log would be the loss of committed records.
func (m *Manager) needed(w wanted) bool {
	return w.topic.Partitions.At(w.partition).Counts(m.opt.Self)
}
