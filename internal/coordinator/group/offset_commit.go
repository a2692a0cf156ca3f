package group

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// commit answers an OffsetCommit.
func (s *Shard) commit(to coordinator.Ticket, req *kmsg.OffsetCommitRequest, moved func(topic string, partition int32, before int64)) {
	by := committer{group: req.Group, member: req.MemberID, instance: req.InstanceID, generation: req.Generation,
		knowsEpochs: req.Version >= 9}
	allowed, f := s.checkCommit(by)
	if f == nil {
		f = s.checkCommitSize(s.commitOf(req))
	}
	if f != nil {
		s.out.Reply(to, commitRefused(req, f.errorCode()))
		return
	}
	g := s.groups[req.Group]
	if g != nil && g.classic() != nil {
		g.classic().committed(s, g, req.MemberID)
	}
	resp := commitRefused(req, 0)
	for i, t := range req.Topics {
		for n, p := range t.Partitions {
			result := &resp.Topics[i].Partitions[n]
			if len(deref(p.Metadata)) > s.cfg.MaxMetadata {
				result.ErrorCode = kerr.OffsetMetadataTooLarge.Code
				continue
			}
			if f := allowed.check(t.TopicID, p.Partition); f != nil {
				result.ErrorCode = f.errorCode()
				continue
			}
			if moved != nil && by.anonymous() {
				if before := offsetOf(g, t.Topic, p.Partition); before < 0 || p.Offset < before {
					moved(t.Topic, p.Partition, before)
				}
			}
			s.emit(format.Key{Type: format.TypeOffset, Group: req.Group, Item: t.Topic, Partition: p.Partition},
				s.committedNow(req, t.TopicID, p))
		}
	}
	s.out.Reply(to, resp)
}

// offsetOf returns the committed offset of a group, which may be nil; -1: it has none.
func offsetOf(g *group, topic string, partition int32) int64 {
	if g == nil {
		return -1
	}
	if o, committed := g.offsets[topic][partition]; committed {
		return o.Offset
	}
	return -1
}

func (s *Shard) commitOf(req *kmsg.OffsetCommitRequest) commit {
	c := s.newCommit(req.Group, false)
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			c.add(t.Topic, t.Partitions[j].Partition, deref(t.Partitions[j].Metadata))
		}
	}
	return c
}

func (s *Shard) committedNow(req *kmsg.OffsetCommitRequest, topic [16]byte, p kmsg.OffsetCommitRequestTopicPartition) format.Offset {
	o := format.Offset{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: deref(p.Metadata), Committed: s.nowMillis(), Expires: -1,
		Topic: topic}
	if req.Version < 6 {
		o.LeaderEpoch = -1
	}
	if req.Version >= 2 && req.Version <= 4 && req.RetentionTimeMillis >= 0 {
		// The largest values mean "for ever". That record format has no field for the id.
		o.Expires, o.Topic = o.Committed+min(req.RetentionTimeMillis, math.MaxInt64-o.Committed), [16]byte{}
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

// committer is who commits offsets.
type committer struct {
	group, member string
	instance      *string
	generation    int32 // or member epoch; negative: none
	knowsEpochs   bool  // the request's version has the errors of KIP-848: GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH
	transactional bool  // a TxnOffsetCommit
	topics        Topics
}

// anonymous reports whether the committer names no member: it assigns its partitions itself, is an
// administrator, or speaks a version without members.
func (c committer) anonymous() bool { return c.generation < 0 && c.member == "" && c.instance == nil }

// partitionCheck returns why a commit for one partition is refused, nil if it is allowed. A nil
// partitionCheck allows all.
type partitionCheck func(topic [16]byte, partition int32) *failure

func (c partitionCheck) check(topic [16]byte, partition int32) *failure {
	if c == nil {
		return nil
	}
	return c(topic, partition)
}

// checkCommit returns why a commit is refused, nil if it is allowed.
func (s *Shard) checkCommit(by committer) (partitionCheck, *failure) {
	g := s.groups[by.group]
	switch {
	case g == nil && by.generation < 0:
		return nil, nil // a consumer that assigns partitions itself, or an administrator
	case g == nil && by.knowsEpochs:
		return nil, unknownGroup(by.group)
	case g == nil:
		return nil, refuse(kerr.IllegalGeneration)
	}
	k, keeps := g.kind.(offsetKeeper)
	if !keeps {
		return nil, noConsumerGroup(by.group)
	}
	by.topics = s.topics
	return k.checkCommit(by)
}

func (c *classic) checkCommit(by committer) (partitionCheck, *failure) { return nil, c.mayCommit(by) }

func (c *classic) mayCommit(by committer) *failure {
	switch {
	case by.generation < 0 && c.state == empty:
		return nil
	case !by.anonymous():
		if f := c.checkMember(by.member, by.instance); f != nil {
			return f
		}
		if by.generation != c.generation {
			return refuse(kerr.IllegalGeneration)
		}
	case by.transactional:
		return nil
	default:
		return refuse(kerr.UnknownMemberID)
	}
	if c.state == completing && !by.transactional {
		// The member has the new generation but not its assignment yet, so the commit is for the
		// old one.
		return refuse(kerr.RebalanceInProgress)
	}
	return nil
}

// checkCommit lets a member commit in an earlier epoch than its own for partitions that it has
// owned since then (KIP-1251).
func (c *consumer) checkCommit(by committer) (partitionCheck, *failure) {
	if by.generation < 0 && len(c.members) == 0 || by.transactional && by.anonymous() {
		return nil, nil
	}
	m := c.members[by.member]
	switch {
	case m == nil:
		return nil, refuse(kerr.UnknownMemberID)
	case !by.transactional && !m.classic() && !by.knowsEpochs:
		return nil, refuse(kerr.UnsupportedVersion)
	case by.generation == m.epoch:
		return nil, nil
	}
	stale := m.stale()
	if !by.knowsEpochs { // a transaction of an older client, or a member of the classic protocol
		stale = refuse(kerr.IllegalGeneration)
	}
	if by.generation > m.epoch || by.generation < 0 {
		return nil, stale
	}
	return func(topic [16]byte, partition int32) *failure {
		if m.ownedSince(topic, partition, by.generation) {
			return nil
		}
		return stale
	}, nil
}

// committed is called after a commit of a member was allowed, which counts as a heartbeat. Members
// of the other kinds must send heartbeats.
func (c *classic) committed(s *Shard, g *group, id string) {
	if m := c.members[id]; m != nil {
		s.expectHeartbeat(g, m)
	}
}

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
