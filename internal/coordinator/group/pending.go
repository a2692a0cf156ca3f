package group

import "slices"

// Ids that were given out (KIP-394) and have not come back yet. Each is counted where
// the group is, and under the connection that asked for it: one that asks again and
// again loses its oldest, and those of one that is closed are forgotten.

// maxPending is how many ids one connection may have outstanding in a shard. A consumer
// needs one.
const maxPending = 100

// pendingID is an id that was given out in a group.
type pendingID struct{ group, id string }

// Closed notifies the shard that a client's connection has ended. It has no answer.
type Closed struct{ Connection uint64 }

// notePending notes an id that was given out. connection is 0 where it is not known.
func (s *Shard) notePending(g *group, id string, connection uint64) {
	c := g.classic()
	c.pending[id], c.touched = connection, true
	if connection == 0 {
		return
	}
	s.pending[connection] = append(s.pending[connection], pendingID{g.id, id})
	if list := s.pending[connection]; len(list) > maxPending {
		oldest := list[0]
		s.dropPending(s.groups[oldest.group], oldest.id)
		s.finishEvent(oldest.group)
	}
}

// dropPending forgets an id that was given out; a join phase may have waited for it.
func (s *Shard) dropPending(g *group, id string) {
	s.drop(g, id)
	s.completeIfAllJoined(g)
}

// removePending takes an id off its connection's list: it is a member's now, or forgotten.
func (s *Shard) removePending(g *group, id string) {
	c := g.classic()
	if c == nil {
		return
	}
	connection, was := c.pending[id]
	if !was || connection == 0 {
		return
	}
	list := slices.DeleteFunc(s.pending[connection], func(p pendingID) bool { return p == pendingID{g.id, id} })
	if len(list) == 0 {
		delete(s.pending, connection)
		return
	}
	s.pending[connection] = list
}

// closed has the ids that a connection was given time out now. Their timers do it, since
// it may end a join phase.
func (s *Shard) closed(connection uint64) {
	for _, p := range s.pending[connection] {
		s.setTimer(timerSession, p.group, p.id, 0)
	}
}
