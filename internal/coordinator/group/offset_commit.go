package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// commit answers an OffsetCommit.
func (s *Shard) commit(to coordinator.Ticket, req *kmsg.OffsetCommitRequest) {
	allowed, f := s.checkCommit(req)
	if f == nil && commitSize(req) > s.cfg.MaxRecord {
		f = refuse(kerr.InvalidCommitOffsetSize)
	}
	if f != nil {
		s.out.Reply(to, commitRefused(req, f.errorCode()))
		return
	}
	if g := s.groups[req.Group]; g != nil {
		g.kind.commitAllowed(s, g, req.MemberID)
	}
	resp := commitRefused(req, 0)
	for i, t := range req.Topics {
		for n, p := range t.Partitions {
			result := &resp.Topics[i].Partitions[n]
			if len(deref(p.Metadata)) > s.cfg.MaxMetadata {
				result.ErrorCode = kerr.OffsetMetadataTooLarge.Code
				continue
			}
			if allowed != nil {
				if f := allowed(t.TopicID, p.Partition); f != nil {
					result.ErrorCode = f.errorCode()
					continue
				}
			}
			s.emit(format.Key{Type: format.TypeOffset, Group: req.Group, Item: t.Topic, Partition: p.Partition},
				s.committedNow(req, t.TopicID, p))
		}
	}
	s.out.Reply(to, resp)
}

// commitSize returns the approximate size of the records: each contains the names of the group and
// the topic.
func commitSize(req *kmsg.OffsetCommitRequest) int {
	n := 0
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			n += 64 + len(req.Group) + len(t.Topic) + len(deref(t.Partitions[j].Metadata))
		}
	}
	return n
}

func (s *Shard) committedNow(req *kmsg.OffsetCommitRequest, topic [16]byte, p kmsg.OffsetCommitRequestTopicPartition) format.Offset {
	o := format.Offset{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: deref(p.Metadata), Committed: s.nowMillis(), Expires: -1,
		Topic: topic}
	if req.Version < 6 {
		o.LeaderEpoch = -1
	}
	if req.Version >= 2 && req.Version <= 4 && req.RetentionTimeMillis >= 0 {
		o.Expires, o.Topic = o.Committed+req.RetentionTimeMillis, [16]byte{} // that record format has no field for the id
	}
	return o
}

// commitRefused returns a response with the same code for every partition.
func commitRefused(req *kmsg.OffsetCommitRequest, code int16) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Version = req.Version
	for _, t := range req.Topics {
		r := kmsg.NewOffsetCommitResponseTopic()
		r.Topic, r.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			q := kmsg.NewOffsetCommitResponseTopicPartition()
			q.Partition, q.ErrorCode = p.Partition, code
			r.Partitions = append(r.Partitions, q)
		}
		resp.Topics = append(resp.Topics, r)
	}
	return resp
}

// checkCommit returns why a commit is refused, nil if it is allowed. If allowed is not nil, it
// returns the same for one partition.
func (s *Shard) checkCommit(req *kmsg.OffsetCommitRequest) (allowed func(topic [16]byte, partition int32) *failure, f *failure) {
	g := s.groups[req.Group]
	switch {
	case !fits(req.Group):
		return nil, refuse(kerr.InvalidGroupID)
	case g == nil && req.Generation < 0:
		return nil, nil // a consumer that assigns partitions itself, or an administrator
	case g == nil && req.Version >= 9:
		return nil, unknownGroup(req.Group)
	case g == nil:
		return nil, refuse(kerr.IllegalGeneration)
	}
	return g.kind.checkCommit(req)
}

func (c *classic) checkCommit(req *kmsg.OffsetCommitRequest) (allowed func([16]byte, int32) *failure, f *failure) {
	return nil, c.mayCommit(req)
}

func (c *classic) mayCommit(req *kmsg.OffsetCommitRequest) *failure {
	switch {
	case req.Generation < 0 && c.state == empty:
		return nil
	case req.Generation >= 0 || req.MemberID != "" || req.InstanceID != nil:
		if f := c.checkMember(req.MemberID, req.InstanceID); f != nil {
			return f
		}
		if req.Generation != c.generation {
			return refuse(kerr.IllegalGeneration)
		}
	case c.state != empty:
		return refuse(kerr.UnknownMemberID)
	}
	if c.state == completing {
		// The member has the new generation but not its assignment yet, so the commit is for the
		// old one.
		return refuse(kerr.RebalanceInProgress)
	}
	return nil
}

// checkCommit lets a member commit in an earlier epoch than its own for partitions that it has
// owned since then (KIP-1251).
func (c *consumer) checkCommit(req *kmsg.OffsetCommitRequest) (allowed func([16]byte, int32) *failure, f *failure) {
	if req.Generation < 0 && len(c.members) == 0 {
		return nil, nil
	}
	m := c.members[req.MemberID]
	switch {
	case m == nil:
		return nil, refuse(kerr.UnknownMemberID)
	case !m.classic() && req.Version < 9:
		return nil, refuse(kerr.UnsupportedVersion)
	case req.Generation == m.epoch:
		return nil, nil
	case req.Generation > m.epoch || req.Generation < 0:
		return nil, m.stale()
	}
	return func(topic [16]byte, partition int32) *failure {
		if m.ownedSince(topic, partition, req.Generation) {
			return nil
		}
		return m.stale()
	}, nil
}

// commitAllowed implements kind: a commit counts as a heartbeat.
func (c *classic) commitAllowed(s *Shard, g *group, id string) {
	if m := c.members[id]; m != nil {
		s.expectHeartbeat(g, m)
	}
}

// commitAllowed implements kind: only heartbeats keep members of consumer groups alive.
func (c *consumer) commitAllowed(*Shard, *group, string) {}

// stale returns the error for a member with the wrong epoch.
func (m *member) stale() *failure {
	if m.classic() {
		return refuse(kerr.IllegalGeneration)
	}
	return refuse(kerr.StaleMemberEpoch)
}

// ownedSince reports whether the member got a partition in an epoch or earlier, and still owns it
// or is revoking it.
func (m *member) ownedSince(topic assign.TopicID, p, epoch int32) bool {
	for _, o := range []owned{m.assigned, m.revoking} {
		if since, ok := o[topic][p]; ok && since <= epoch {
			return true
		}
	}
	return false
}
