package replica

import (
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
				changes.raise[tp] = lossy
				m.fence[tp] = part.LeaderEpoch + 1
			}
		}
	}
	rounds := m.shareLocked(r)
	m.mu.Unlock()
	m.recorder.add(changes, rounds)
}

// Leaderless returns the number of partitions that wait for a raised leader epoch. Call it when
// everything that Apply changed has been applied; then a number above 0 means that the metadata did
// not accept the change.
func (m *Manager) Leaderless() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.fence)
}
