package group

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// deleteOffsets answers an OffsetDelete. While an offset is pending, the group counts as
// subscribed: a transaction is using its offsets.
func (s *Shard) deleteOffsets(to coordinator.Ticket, req *kmsg.OffsetDeleteRequest) {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	resp.Version = req.Version
	g := s.groups[req.Group]
	switch {
	case req.Group == "":
		resp.ErrorCode = kerr.InvalidGroupID.Code
	case g == nil:
		resp.ErrorCode = kerr.GroupIDNotFound.Code
	default:
		k, keeps := g.kind.(offsetKeeper)
		if !keeps {
			resp.ErrorCode = kerr.GroupIDNotFound.Code
			break
		}
		subscribes, known := k.subscriptions()
		if !known {
			resp.ErrorCode = kerr.NonEmptyGroup.Code // the members' subscriptions are not known
			break
		}
		for _, t := range req.Topics {
			r := kmsg.NewOffsetDeleteResponseTopic()
			r.Topic = t.Topic
			subscribed := subscribes(t.Topic)
			for _, p := range t.Partitions {
				q := kmsg.NewOffsetDeleteResponseTopicPartition()
				q.Partition = p.Partition
				if subscribed || s.isPending(g, t.Topic, p.Partition) {
					q.ErrorCode = kerr.GroupSubscribedToTopic.Code
				} else if _, ok := g.offsets[t.Topic][p.Partition]; ok {
					s.deleteOffset(g, t.Topic, p.Partition)
				}
				r.Partitions = append(r.Partitions, q)
			}
			resp.Topics = append(resp.Topics, r)
		}
	}
	s.out.Reply(to, resp)
}

// deleteOffset deletes an offset. Offsets that are deleted together need not be atomic, and may be
// many.
func (s *Shard) deleteOffset(g *group, topic string, partition int32) {
	s.out.Split()
	s.emit(format.Key{Type: format.TypeOffset, Group: g.id, Item: topic, Partition: partition}, nil)
}

// dropOffsets deletes all offsets of topics.
func (s *Shard) dropOffsets(g *group, topics []string) {
	for _, t := range topics {
		for _, p := range slices.Sorted(maps.Keys(g.offsets[t])) {
			s.deleteOffset(g, t, p)
		}
	}
}

// Delete deletes groups without members and pending offsets, and their offsets. The response is a
// []kmsg.DeleteGroupsResponseGroup.
type Delete struct {
	Groups []string
}

// deleteGroups answers a Delete, for share groups when their states are deleted.
func (s *Shard) deleteGroups(to coordinator.Ticket, e Delete) {
	d := &deleting{to: to, list: make([]kmsg.DeleteGroupsResponseGroup, len(e.Groups))}
	for i, id := range e.Groups {
		s.out.Split()
		d.list[i] = kmsg.NewDeleteGroupsResponseGroup()
		d.list[i].Group = id
		d.set(i, s.deleteGroup(id, deletion{d, i}))
	}
	if d.left == 0 {
		s.out.Reply(to, d.list)
	}
}

func (s *Shard) deleteGroup(id string, d deletion) *failure {
	g := s.groups[id]
	switch {
	case g == nil:
		return unknownGroup(id)
	case !g.kind.empty():
		return notEmpty(id)
	case s.hasPending(g):
		return pendingOffsets(id)
	case g.share() != nil && s.deleteShare(g, d):
		s.finishEvent(id)
		return nil // the answer follows
	}
	s.removeGroup(g)
	return nil
}

func notEmpty(id string) *failure { return fail(kerr.NonEmptyGroup, "Group %s is not empty.", id) }

func pendingOffsets(id string) *failure {
	return fail(kerr.NonEmptyGroup, "Offsets of group %s are part of an open transaction. Try again when it has ended.", id)
}

// removeGroup deletes a group without members, and its offsets.
func (s *Shard) removeGroup(g *group) {
	s.dropOffsets(g, slices.Sorted(maps.Keys(g.offsets)))
	g.kind.removeRecords(s, g)
	s.finishEvent(g.id)
}

// expireOffsets deletes offsets whose retention has expired, and groups that have nothing left.
func (s *Shard) expireOffsets() {
	left := maxTombstones
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		if left <= 0 {
			break
		}
		g := s.groups[id]
		n, all := s.expireGroup(g, left)
		left -= n
		if all && !s.hasPending(g) && g.kind.expires() {
			s.out.Split()
			g.kind.removeRecords(s, g)
			left--
		}
		s.finishEvent(id)
	}
	again := s.cfg.RetentionCheck
	if left <= 0 {
		again = tombstoneDelay
	}
	s.setTimer(timerRetention, "", "", again)
}

// expireGroup deletes at most limit offsets of a group. all reports whether none are left.
func (s *Shard) expireGroup(g *group, limit int) (n int, all bool) {
	k, keeps := g.kind.(offsetKeeper)
	if !keeps || len(g.offsets) == 0 {
		return 0, true
	}
	read := k.readTopics()
	for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
		if read(topic) {
			continue
		}
		var old []int32
		for p, o := range g.offsets[topic] {
			if s.expired(g, o) && !s.isPending(g, topic, p) {
				old = append(old, p)
			}
		}
		slices.Sort(old)
		for _, p := range old[:min(len(old), limit-n)] {
			s.deleteOffset(g, topic, p)
			n++
		}
	}
	return n, len(g.offsets) == 0
}

// expired reports whether an offset's retention has expired. The retention starts when an empty
// classic group lost its last member, otherwise at the commit. An old client may have set an
// expiration time of its own, which then applies instead.
func (s *Shard) expired(g *group, o format.Offset) bool {
	now := s.nowMillis()
	if o.Expires >= 0 {
		return now >= o.Expires
	}
	from := o.Committed
	if c := g.classic(); c != nil {
		if emptied, counts := c.emptySince(); counts {
			from = emptied
		}
	}
	return now-s.retainedFrom(g, from) >= s.cfg.Retention.Milliseconds()
}
