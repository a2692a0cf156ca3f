package replica

import (
	"maps"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
)

// latest returns the latest epoch of which a log has records, or in which it leads or notes to have
// led, -1 for none.
func latest(l *storage.Log) int32 {
	epoch, _ := l.LastEpoch()
	return max(epoch, l.LedEpoch())
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
