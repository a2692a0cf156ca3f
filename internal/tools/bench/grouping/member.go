package grouping

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// Protocol is the protocol of a group's members.
type Protocol string

// The protocols.
const (
	// Classic is JoinGroup, SyncGroup, Heartbeat: the leader assigns.
	Classic Protocol = "classic"
	// Consumer is ConsumerGroupHeartbeat (KIP-848): the broker assigns.
	Consumer Protocol = "consumer"
)

// Versions of the requests, which Kafka 4 and chronik support.
const (
	joinVersion, syncVersion, beatVersion, leaveVersion, consumerVersion = 9, 5, 4, 5, 1
	rebalanceTimeout                                                     = time.Minute
	sessionTimeout                                                       = 45 * time.Second
)

// share is a member's assignment: the number of partitions and the generation or member epoch.
type share struct {
	epoch      int32
	partitions int
}

// player is a member of a group in one of the protocols. One goroutine uses it.
type player interface {
	// join joins the group and returns when the member has its assignment.
	join() error
	// beat sends a heartbeat. again means that another one is due at once, rejoin that the member
	// must join again.
	beat() (again, rejoin bool, err error)
	leave() error
	share() share
	// heartbeat returns the interval that the broker sets; 0 if it sets none.
	heartbeat() time.Duration
}

// newPlayer returns a member that has not joined yet. id is unique.
func newPlayer(p Protocol, c *wire.Caller, t *topic, group, id string) player {
	if p == Consumer {
		return &consumer{Caller: c, topic: t, group: group, id: id}
	}
	return &classic{Caller: c, topic: t, group: group}
}

// topic is the topic that members subscribe to.
type topic struct {
	name       string
	partitions int32
}

// classic is a member of a classic group.
type classic struct {
	*wire.Caller
	topic      *topic
	group, id  string
	generation int32
	has        int
}

func (m *classic) share() share             { return share{m.generation, m.has} }
func (m *classic) heartbeat() time.Duration { return 0 }

func (m *classic) join() error {
	for {
		resp, err := m.askToJoin()
		if err == nil {
			err = m.sync(resp)
		}
		switch {
		case errors.Is(err, kerr.MemberIDRequired), errors.Is(err, kerr.RebalanceInProgress):
		case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration):
			m.id = ""
		default:
			return err
		}
	}
}

func (m *classic) askToJoin() (*kmsg.JoinGroupResponse, error) {
	sub := kmsg.NewConsumerMemberMetadata()
	sub.Topics = []string{m.topic.name}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = joinVersion, m.group, m.id, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(sessionTimeout.Milliseconds()), int32(rebalanceTimeout.Milliseconds())
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: sub.AppendTo(nil)}}
	got, err := m.Call(req)
	if err != nil {
		return nil, fmt.Errorf("join %s: %w", m.group, err)
	}
	resp := got.(*kmsg.JoinGroupResponse)
	if resp.MemberID != "" {
		m.id = resp.MemberID
	}
	return resp, kerr.ErrorForCode(resp.ErrorCode)
}

func (m *classic) sync(joined *kmsg.JoinGroupResponse) error {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = syncVersion, m.group, m.id, joined.Generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), joined.Protocol
	if joined.LeaderID == m.id {
		req.GroupAssignment = m.lead(joined.Members)
	}
	got, err := m.Call(req)
	if err != nil {
		return fmt.Errorf("sync %s: %w", m.group, err)
	}
	resp := got.(*kmsg.SyncGroupResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	a := kmsg.NewConsumerMemberAssignment()
	if err := a.ReadFrom(resp.MemberAssignment); err != nil {
		return fmt.Errorf("assignment in %s: %w", m.group, err)
	}
	m.generation, m.has = joined.Generation, 0
	for _, t := range a.Topics {
		m.has += len(t.Partitions)
	}
	return nil
}

// lead assigns every partition to a member.
func (m *classic) lead(members []kmsg.JoinGroupResponseMember) []kmsg.SyncGroupRequestGroupAssignment {
	list := make([]kmsg.SyncGroupRequestGroupAssignment, len(members))
	for i, to := range members {
		a, t := kmsg.NewConsumerMemberAssignment(), kmsg.NewConsumerMemberAssignmentTopic()
		t.Topic = m.topic.name
		for p := int32(i); p < m.topic.partitions; p += int32(len(members)) {
			t.Partitions = append(t.Partitions, p)
		}
		a.Topics = append(a.Topics, t)
		list[i] = kmsg.SyncGroupRequestGroupAssignment{MemberID: to.MemberID, MemberAssignment: a.AppendTo(nil)}
	}
	return list
}

func (m *classic) beat() (again, rejoin bool, err error) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = beatVersion, m.group, m.id, m.generation
	got, err := m.Call(req)
	if err != nil {
		return false, false, fmt.Errorf("heartbeat: %w", err)
	}
	switch err := kerr.ErrorForCode(got.(*kmsg.HeartbeatResponse).ErrorCode); {
	case errors.Is(err, kerr.RebalanceInProgress), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.UnknownMemberID):
		return false, true, nil
	default:
		return false, false, err
	}
}

func (m *classic) leave() error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = leaveVersion, m.group
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: m.id}}
	got, err := m.Call(req)
	if err != nil {
		return fmt.Errorf("leave %s: %w", m.group, err)
	}
	return kerr.ErrorForCode(got.(*kmsg.LeaveGroupResponse).ErrorCode)
}

// consumer is a member of a consumer group.
type consumer struct {
	*wire.Caller
	topic       *topic
	group, id   string
	epoch       int32
	interval    time.Duration
	has         []kmsg.ConsumerGroupHeartbeatRequestTopic
	unconfirmed bool // it has not confirmed its assignment yet
}

func (m *consumer) heartbeat() time.Duration { return m.interval }

func (m *consumer) share() share {
	n := 0
	for _, t := range m.has {
		n += len(t.Partitions)
	}
	return share{m.epoch, n}
}

func (m *consumer) join() error {
	req := m.request(0)
	req.RebalanceTimeoutMillis, req.SubscribedTopicNames = int32(rebalanceTimeout.Milliseconds()), []string{m.topic.name}
	req.Topics, m.has = []kmsg.ConsumerGroupHeartbeatRequestTopic{}, nil
	return m.send(req)
}

func (m *consumer) request(epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = consumerVersion, m.group, m.id, epoch
	return req
}

func (m *consumer) beat() (again, rejoin bool, err error) {
	req := m.request(m.epoch)
	if m.unconfirmed {
		req.Topics, m.unconfirmed = m.has, false
		if req.Topics == nil {
			req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		}
	}
	switch err := m.send(req); {
	case errors.Is(err, kerr.FencedMemberEpoch), errors.Is(err, kerr.UnknownMemberID):
		return false, true, nil
	case err != nil:
		return false, false, err
	}
	return m.unconfirmed, false, nil
}

// send sends a heartbeat and applies the response.
func (m *consumer) send(req *kmsg.ConsumerGroupHeartbeatRequest) error {
	got, err := m.Call(req)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	resp := got.(*kmsg.ConsumerGroupHeartbeatResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	m.epoch, m.interval = resp.MemberEpoch, time.Duration(resp.HeartbeatIntervalMillis)*time.Millisecond
	if resp.Assignment == nil {
		return nil
	}
	m.has, m.unconfirmed = nil, true
	for _, t := range resp.Assignment.Topics {
		has := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		has.TopicID, has.Partitions = t.TopicID, t.Partitions
		m.has = append(m.has, has)
	}
	return nil
}

func (m *consumer) leave() error {
	got, err := m.Call(m.request(-1))
	if err != nil {
		return fmt.Errorf("leave %s: %w", m.group, err)
	}
	return kerr.ErrorForCode(got.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode)
}

// joinPatiently joins, and waits while the coordinator is not ready.
func joinPatiently(ctx context.Context, p player) error {
	for {
		err := p.join()
		if err == nil || !busy(err) {
			return err
		}
		if !pause.Wait(ctx.Done(), busyPause) {
			return ctx.Err()
		}
	}
}
