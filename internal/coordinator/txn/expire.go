package txn

import (
	"cmp"
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
	idle := s.idle(s.cfg.Expiration)
	pause := s.cfg.ExpirationCheck
	if len(idle) > maxTombstones {
		idle, pause = idle[:maxTombstones], tombstonePause
	}
	s.remove(idle)
	s.setTimer(timerExpire, "", pause)
}

// idle returns the ids that have had no transaction for some time, the most idle first.
func (s *Shard) idle(since time.Duration) (list []string) {
	last := s.now.Add(-since).UnixMilli()
	for id, t := range s.ids {
		if (t.state == Empty || t.state.complete()) && t.update <= last {
			list = append(list, id)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(s.ids[a].update, s.ids[b].update), cmp.Compare(a, b)) })
	return list
}

func (s *Shard) remove(ids []string) {
	for _, id := range ids {
		s.out.Split()
		s.out.Emit(coordinator.Record{Key: encodeKey(id)})
		s.forget(id)
	}
}

const (
	// minIdle is how long an id keeps its place however many new ones come: the default of
	// transaction.max.timeout.ms, so that a producer that works keeps its id.
	minIdle = 15 * time.Minute
	// roomShare is the share of MaxIDs that is removed at a time, and fullPause the least time
	// between two searches that found nothing: each reads all ids.
	roomShare = 20
	fullPause = time.Second
)

// hasRoom reports whether there may be one more id. If there are too many, or too little memory is
// left, it removes the most idle ones. A client that makes up an id for each transaction pushes out
// its own then, and those that are in use stay.
func (s *Shard) hasRoom(id string) bool {
	if len(s.ids) < s.cfg.MaxIDs && s.cfg.IDMemory.AllowsKept(s.named, int(idWeight(id))) {
		return true
	}
	if s.now.Before(s.fullUntil) {
		return false
	}
	idle := s.idle(minIdle)
	idle = idle[:min(len(idle), max(1, s.cfg.MaxIDs/roomShare), maxTombstones)]
	if len(idle) == 0 {
		s.fullUntil = s.now.Add(fullPause)
		s.observeCrowd(0, 0)
		return false
	}
	shortest := s.now.Sub(time.UnixMilli(s.ids[idle[len(idle)-1]].update))
	s.remove(idle)
	s.observeCrowd(len(idle), shortest)
	return true
}
