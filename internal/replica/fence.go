package replica

import (
	"maps"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
)

// fenceUnclean requests higher leader epochs for the partitions that this broker leads and whose
// directory was not closed cleanly. Records that were visible may be lost, and an epoch must not be
// resumed then (I9). Such a partition gets a leader when the metadata has the new epoch, and also
// remembers whether records may be lost that were acknowledged. In a cluster the registration has
// done both.
func (m *Manager) fenceUnclean(topics []*metadata.Topic, r *round) {
	if m.opt.Incarnation != [16]byte{} {
		return
	}
	changes := newChanges()
	lost := map[storage.ID]bool{}
	for _, d := range m.opt.Storage.Dirs() {
		for _, id := range d.LossyLogs() {
			lost[id] = true
		}
	}
	m.mu.Lock()
	for _, t := range topics {
		for i, part := range t.Partitions.All() {
			l := m.opt.Storage.Get(storage.ID{Topic: t.ID, Partition: i})
			if l == nil || part.Leader != m.opt.Self {
				continue
			}
			if lossy := lost[l.ID()]; lossy || !l.Dir().Clean() {
				tp := metadata.TopicPartition{Topic: t.ID, Partition: i}
				x := metadata.Raise{From: part.LeaderEpoch, Seen: latest(l), Lossy: lossy}
				m.fence[tp], changes.raise[tp] = Waiting{tp, x, time.Now()}, x
			}
		}
	}
	rounds := m.shareLocked(r)
	m.mu.Unlock()
	m.recorder.add(changes, rounds)
}

// latest returns the latest epoch of which a log has records, or in which it leads, -1 for none.
func latest(l *storage.Log) int32 {
	epoch, _ := l.LastEpoch()
	return epoch
}

// Waiting is a partition that this broker is to lead and that waits for a higher leader epoch.
type Waiting struct {
	metadata.TopicPartition
	metadata.Raise
	Since time.Time
}

// Leaderless returns the partitions that wait for a higher leader epoch, in any order. Call it when
// everything that Apply changed has been applied; then such a partition means that the metadata did
// not accept the change.
func (m *Manager) Leaderless() []Waiting {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Collect(maps.Values(m.fence))
}
