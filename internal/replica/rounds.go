package replica

import (
	"context"
	"fmt"
	"slices"
	"sort"
)

// round counts the tasks of one image that were not attempted yet. When there are none, done is
// closed. Guarded by Manager.mu.
type round struct {
	after, version int64 // the image was the first to show the revisions in (after, version]
	left           int
	done           chan struct{} // closed with left at 0, or by Close of the Manager
}

// newRound returns a round with one task, which the caller must end.
func (m *Manager) newRound(after, version int64) *round {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &round{after: after, version: version, left: 1, done: make(chan struct{})}
	m.rounds = append(m.rounds, r)
	return r
}

// share adds a task to a round, which may be nil.
func (m *Manager) share(r *round) []*round {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shareLocked(r)
}

// shareLocked is share for a caller that holds mu.
func (m *Manager) shareLocked(r *round) []*round {
	if r == nil {
		return nil
	}
	r.left++
	return []*round{r}
}

// ended ends one task of each round.
func (m *Manager) ended(rounds ...*round) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rounds {
		if r.left--; r.left > 0 {
			continue
		}
		if i := slices.Index(m.rounds, r); i >= 0 { // Close removes all
			m.rounds = slices.Delete(m.rounds, i, i+1)
			close(r.done)
		}
	}
}

// roundOf returns the round of the first image that showed a revision, nil if all of its tasks were
// attempted or there were none.
func (m *Manager) roundOf(version int64) *round {
	m.mu.RLock()
	defer m.mu.RUnlock()
	i := sort.Search(len(m.rounds), func(i int) bool { return m.rounds[i].version >= version })
	if i == len(m.rounds) || m.rounds[i].after >= version {
		return nil
	}
	return m.rounds[i]
}

// AwaitApplied waits until every task of the first image that showed a version has been attempted
// once: logs were created or deleted and the metadata updated, or the attempt failed. It returns at
// once if there are no tasks or Apply has not seen the version. The error is that of the context.
// AwaitApplied does not wait for other images, whose tasks may be in a directory that hangs.
func (m *Manager) AwaitApplied(ctx context.Context, version int64) error {
	r := m.roundOf(version)
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the logs of metadata version %d: %w", version, ctx.Err())
	}
}
