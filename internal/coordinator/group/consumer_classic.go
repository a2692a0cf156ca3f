package group

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/protocol"
)

// Members of a consumer group may use the classic protocol. JoinGroup is then their heartbeat: it
// carries the subscription and the partitions that the member still owns; as in the heartbeats of
// KIP-848, a topic that the client may not see refuses it. SyncGroup fetches the assignment, and
// Heartbeat reports whether the member must rejoin. The generation is the member epoch, and no
// member leads.

// join answers a JoinGroup of a member that uses the classic protocol. The group has members.
func (c *consumer) join(s *Shard, g *group, j joining) {
	p, id := j.parked(), j.req.MemberID
	if s.topicsUnknown() {
		s.refuseJoin(p, "", kerr.CoordinatorLoadInProgress)
		return
	}
	unknown := id == ""
	if unknown {
		id = s.cfg.NewID()
	}
	sub, code := s.checkClassicJoin(g, id, j)
	if code != nil {
		s.refuseJoin(p, "", code)
		return
	}
	if unknown && j.req.InstanceID == nil && j.req.Version >= 4 {
		s.refuseJoin(p, id, kerr.MemberIDRequired)
		return
	}
	joins := unknown || j.req.InstanceID == nil
	id, f := s.admit(g, id, j.req.InstanceID, joins, true)
	if f != nil {
		s.refuseJoin(p, "", f.code)
		return
	}
	s.updateMember(g, id, classicMeta(c.memberOrNew(id).meta, j, sub))
	s.reconcile(g, c.members[id], s.reported(sub))
	m := c.members[id]

	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version = j.req.Version
	resp.Generation, resp.MemberID = m.epoch, id
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(consumerProtocol), kmsg.StringPtr(m.meta.Classic.Protocols[0].Name)
	s.out.Reply(j.to, resp)

	m.joinBy = time.Time{}
	s.cancelTimer(timerMemberJoin, g.id, id)
	s.setTimer(timerSession, g.id, id, millis(j.req.SessionTimeoutMillis))
	s.setTimer(timerMemberSync, g.id, id, millis(m.meta.RebalanceTimeout))
	if s.downgradable(g, "") {
		s.downgrade(g, "")
	}
}

// checkClassicJoin checks a JoinGroup and decodes the member's subscription.
func (s *Shard) checkClassicJoin(g *group, id string, j joining) (kmsg.ConsumerMemberMetadata, *kerr.Error) {
	c := g.consumer()
	var sub kmsg.ConsumerMemberMetadata
	if c.members[id] == nil && len(c.members) >= s.cfg.ConsumerMaxSize {
		return sub, kerr.GroupMaxSizeReached
	}
	if j.req.ProtocolType != consumerProtocol || len(j.req.Protocols) == 0 || !c.supportsClassic(j.req.Protocols) {
		return sub, kerr.InconsistentGroupProtocol
	}
	sub, err := protocol.DecodeSubscription(j.req.Protocols[0].Metadata)
	if err != nil {
		return sub, kerr.InconsistentGroupProtocol
	}
	if visible := s.visible(j.Viewer); slices.ContainsFunc(sub.Topics, func(name string) bool { return !visible(name) }) {
		return sub, kerr.TopicAuthorizationFailed
	}
	return sub, nil
}

// supportsClassic reports whether all members that use the classic protocol support one of the
// protocols: a downgrade may leave only them.
func (c *consumer) supportsClassic(protocols []kmsg.JoinGroupRequestProtocol) bool {
	old := newClassic()
	for id, m := range c.members {
		if m.classic() {
			old.members[id] = &classicMember{id: id, protocols: m.meta.Classic.Protocols}
		}
	}
	return old.supportsOne(protocols)
}

// classicMeta returns the metadata of a member that uses the classic protocol.
func classicMeta(m format.Member, j joining, sub kmsg.ConsumerMemberMetadata) format.Member {
	m.ClientID, m.ClientHost = j.ClientID, j.ClientHost
	if j.req.InstanceID != nil {
		m.Instance = j.req.InstanceID
	}
	if sub.Rack != nil {
		m.Rack = sub.Rack
	}
	if m.RebalanceTimeout = j.req.RebalanceTimeoutMillis; j.req.Version == 0 || m.RebalanceTimeout < 0 {
		m.RebalanceTimeout = j.req.SessionTimeoutMillis
	}
	m.Topics, m.Regex = sortedSet(sub.Topics), nil
	m.Classic = &format.Classic{SessionTimeout: j.req.SessionTimeoutMillis, Protocols: protocolsOf(j.req.Protocols)}
	return m
}

// reported returns the partitions that the member owns according to its subscription. Before
// version 1 of the embedded protocol, a member revokes all partitions before it joins.
func (s *Shard) reported(sub kmsg.ConsumerMemberMetadata) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	list := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, t := range sub.OwnedPartitions {
		if topic, ok := s.topics.ByName(t.Topic); ok {
			r := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			r.TopicID, r.Partitions = topic.ID, t.Partitions
			list = append(list, r)
		}
	}
	return list
}

// classicMember returns the member that sent a Heartbeat or SyncGroup.
func (c *consumer) classicMember(id string, instance *string, generation int32) (*member, *failure) {
	if f := checkInstance(c.static, id, instance); f != nil {
		return nil, f
	}
	m := c.members[id]
	switch {
	case m == nil || !m.classic():
		return nil, refuse(kerr.UnknownMemberID)
	case m.epoch != generation:
		return nil, refuse(kerr.IllegalGeneration)
	}
	return m, nil
}

// sync answers a SyncGroup with the member's current partitions, except those of topics that the
// client may not see: it may have lost the right, or have joined when the group was a classic one.
func (c *consumer) sync(s *Shard, g *group, p parked, v Viewer, req *kmsg.SyncGroupRequest) {
	m, f := c.classicMember(req.MemberID, req.InstanceID, req.Generation)
	switch {
	case f != nil:
	case differ(req.ProtocolType, consumerProtocol), differ(req.Protocol, m.meta.Classic.Protocols[0].Name):
		f = refuse(kerr.InconsistentGroupProtocol)
	case c.targetEpoch > m.epoch && m.state != memberUnrevoked:
		s.expectJoin(g, m)
		f = refuse(kerr.RebalanceInProgress)
	}
	if f != nil {
		s.answerSync(p, nil, f.code, nil)
		return
	}
	s.cancelTimer(timerMemberSync, g.id, m.id)
	s.setTimer(timerSession, g.id, m.id, millis(m.meta.Classic.SessionTimeout))
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.Version = p.version
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(consumerProtocol), kmsg.StringPtr(m.meta.Classic.Protocols[0].Name)
	resp.MemberAssignment = s.encodeAssignment(m.assigned.assignment(), s.visible(v), m.meta.Classic.Protocols[0].Metadata)
	s.out.Reply(p.to, resp)
}

// heartbeat answers a Heartbeat: the member must rejoin if its assignment changes.
func (c *consumer) heartbeat(s *Shard, g *group, req *kmsg.HeartbeatRequest) *failure {
	m, f := c.classicMember(req.MemberID, req.InstanceID, req.Generation)
	if f != nil {
		return f
	}
	s.setTimer(timerSession, g.id, m.id, millis(m.meta.Classic.SessionTimeout))
	s.bumpEpoch(g, false)
	s.updateTarget(g)
	if m.epoch < c.targetEpoch || m.state == memberUnrevoked || m.state == memberUnreleased && !c.waitsForOthers(m) {
		s.expectJoin(g, m)
		return refuse(kerr.RebalanceInProgress)
	}
	return nil
}

// waitsForOthers reports whether other members own partitions of the member's target.
func (c *consumer) waitsForOthers(m *member) bool {
	for id, list := range c.target[m.id] {
		for _, p := range list {
			if owner, taken := c.owners[id][p]; taken && owner != m.id {
				return true
			}
		}
	}
	return false
}

// expectJoin starts the rebalance timeout of a member that must rejoin. Further calls do not extend
// it.
func (s *Shard) expectJoin(g *group, m *member) {
	if m.joinBy.After(s.now) {
		return
	}
	m.joinBy = s.now.Add(millis(m.meta.RebalanceTimeout))
	s.setTimer(timerMemberJoin, g.id, m.id, millis(m.meta.RebalanceTimeout))
}

// encodeAssignment encodes an assignment in the embedded consumer protocol, in the version of the
// member's subscription. It leaves out topics that are not visible.
func (s *Shard) encodeAssignment(a assign.Assignment, visible func(topic string) bool, subscription []byte) []byte {
	v := kmsg.NewConsumerMemberAssignment()
	if len(subscription) >= 2 {
		v.Version = int16(binary.BigEndian.Uint16(subscription))
	}
	for _, id := range a.Topics() {
		if topic, ok := s.topics.ByID(id); ok && visible(topic.Name) {
			t := kmsg.NewConsumerMemberAssignmentTopic()
			t.Topic, t.Partitions = topic.Name, a[id]
			v.Topics = append(v.Topics, t)
		}
	}
	return v.AppendTo(nil)
}

// decodeAssignment decodes an assignment. It omits topics that no longer exist.
func (s *Shard) decodeAssignment(p []byte) (assign.Assignment, error) {
	a := assign.Assignment{}
	if len(p) == 0 {
		return a, nil // the member has never synced
	}
	v, err := protocol.DecodeAssignment(p)
	if err != nil {
		return nil, err
	}
	for _, t := range v.Topics {
		if topic, ok := s.topics.ByName(t.Topic); ok && len(t.Partitions) > 0 {
			list := slices.Clone(t.Partitions)
			slices.Sort(list)
			a[topic.ID] = slices.Compact(list)
		}
	}
	return a, nil
}
