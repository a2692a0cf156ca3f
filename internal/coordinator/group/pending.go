package group

import "slices"

// Pending member ids are assigned to clients that have not joined with them yet (KIP-394). They are
// counted with the group and listed under the client's connection. A connection that asks for too
// many loses its oldest id, and a closed connection loses all.

// maxPending is how many pending ids a connection may have in a shard. A consumer needs one.
const maxPending = 100

// pendingID is a pending member id of a group.
type pendingID struct{ group, id string }

// Closed notifies the shard that a client's connection has ended. It has no response.
type Closed struct{ Connection uint64 }

// notePending notes a pending id. connection is 0 if it is not known.
func (s *Shard) notePending(g *group, id string, connection uint64) {
	c := g.classic()
	c.pending[id], c.stale = connection, true
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

// dropPending drops a pending id, and ends a join phase that waited only for it.
func (s *Shard) dropPending(g *group, id string) {
	s.dropMember(g, id)
	s.completeIfAllJoined(g)
}

// removePending removes an id from its connection's list when it becomes a member's id or is
// dropped.
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

// closed expires the pending ids of a connection now. Their timers drop them, because that may end
// a join phase and write records.
func (s *Shard) closed(connection uint64) {
	for _, p := range s.pending[connection] {
		s.setTimer(timerSession, p.group, p.id, 0)
	}
}
