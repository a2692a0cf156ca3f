package txn

import (
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// One event writes at most maxTombstones tombstones. The next ones follow after tombstonePause.
const (
	maxTombstones  = 10_000
	tombstonePause = 100 * time.Millisecond
)

// expire removes ids that have had no transaction for a long time. Such an id gets a new producer
// id when it is used again, never epoch 0 of its old one.
func (s *Shard) expire() {
	oldest := s.now.Add(-s.cfg.Expiration).UnixMilli()
	var idle []string
	for id, t := range s.ids {
		if (t.state == Empty || t.state.complete()) && t.update <= oldest {
			idle = append(idle, id)
		}
	}
	slices.Sort(idle) // the same events make the same records
	pause := s.cfg.ExpirationCheck
	if len(idle) > maxTombstones {
		idle, pause = idle[:maxTombstones], tombstonePause
	}
	for _, id := range idle {
		s.out.Emit(coordinator.Record{Key: encodeKey(id)})
		delete(s.ids, id)
	}
	s.setTimer(timerExpire, "", pause)
}
