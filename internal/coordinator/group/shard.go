package group

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// Shard holds the groups of one partition of __consumer_offsets. It is a coordinator.Machine.
type Shard struct {
	cfg          Config
	topics       Topics
	times        func(group string) Times
	groups       map[string]*group
	memory       int64 // bytes in use of cfg.MemberMemory
	epoch        int32 // the leader epoch in which it runs
	loaded       int64 // when it was loaded, in ms since 1970
	transactions transactions
	// pending has the pending member ids by connection, in order. Volatile.
	pending map[uint64][]pendingID
	// heartbeatMatch is what a resumed heartbeat waited for, while the heartbeat is handled.
	heartbeatMatch *heartbeatMatch
	// rematching: a call is matching all expressions. rematched is its result until it is recorded.
	// Volatile.
	rematching bool
	rematched  *topicMatches
	// changes of topics that the records do not reflect yet. Volatile: after a load, a
	// TopicsChanged with All set follows.
	changes changes

	// Set only during an event.
	now time.Time
	out *coordinator.Effects
}

// New returns a shard without groups.
func New(cfg Config) *Shard {
	// A request that could never fit gets a permanent error rather than one that makes the member
	// retry.
	cfg.MaxRequest = min(cfg.MaxRequest, int(cfg.MemberMemory.ShardSize()/2))
	return &Shard{cfg: cfg, topics: noTopics{}, times: func(string) Times { return Times{} }, groups: map[string]*group{},
		pending: map[uint64][]pendingID{}, transactions: newTransactions()}
}

// Request is a request about one group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup,
// ConsumerGroupHeartbeat, StreamsGroupHeartbeat, ShareGroupHeartbeat, OffsetCommit, OffsetDelete,
// AlterShareGroupOffsets or DeleteShareGroupOffsets.
// The response is the kmsg.Response of its version, or an error for any other request; that of a
// StreamsGroupHeartbeat is a *StreamsHeartbeat. Topics in an OffsetCommit must have both name and
// id, whatever the version.
type Request struct {
	// Connection is the number of the client's connection, 0 if it is not known.
	Connection           uint64
	ClientID, ClientHost string // ClientHost in Kafka's notation: "/127.0.0.1"
	// Viewer is who may not be assigned topics that are hidden from it, see Config.Visible. The
	// zero value may be assigned any.
	Viewer Viewer
	// Client ends when the client is gone; nil: it does not. What is computed for the request alone
	// ends with it.
	Client context.Context
	// Moved is called for each position that an OffsetCommit without a member moves back, or is the
	// first of, before the answer: a reset, and not progress. before is -1 for the first. It may be
	// nil.
	Moved func(topic string, partition int32, before int64)
	Body  kmsg.Request
}

// Viewer is a client as the rules of authorization know it. The texts have no NUL bytes.
type Viewer struct{ Principal, Host string }

// TopicsChanged notifies the shard of the current topics. It has no response.
type TopicsChanged struct {
	Topics Topics
	// Changed are the names of topics that were created, deleted, or got partitions. Deleted are
	// those that were deleted; their committed offsets are also deleted. If All is set, any topic
	// may have changed, and Deleted may be incomplete. It is also set if other topics may have
	// become visible to a viewer.
	Changed, Deleted []string
	All              bool
	// Times returns the settings that a group has configured, by group id. Nil if none has, or if
	// nothing has changed.
	Times func(group string) Times
}

// Times are the settings that a group has configured. They apply from a member's next heartbeat on.
type Times struct {
	Session, Heartbeat time.Duration  // of a consumer group (KIP-848), 0 for the coordinator's
	Streams            *StreamsConfig // of a streams group (KIP-1071), nil for the coordinator's
	Share              *ShareConfig   // of a share group (KIP-932), nil for the coordinator's
}

// The kinds of timers. Owner is the group, Part the member.
const (
	timerSession    uint8 = iota + 1 // a member has not been heard from
	timerJoin                        // classic group: the join phase ends
	timerSync                        // classic group: the time to sync is over
	timerRebalance                   // consumer or streams group: a member has not revoked what it must
	timerMemberJoin                  // consumer group, classic member: has not rejoined
	timerMemberSync                  // consumer group, classic member: has not synced
	timerRetention                   // the shard checks for expired offsets
	timerTopics                      // the shard records the consequences of topic changes
	timerTarget                      // consumer, streams or share group: the next target may be computed
	timerShares                      // share group: the next request to share coordinators may be sent
)

// Writes implements coordinator.Machine.
func (s *Shard) Writes(event any) bool {
	var e Request
	switch event := event.(type) {
	case Request:
		e = event
	case Delete, heartbeatMatch, TxnCommit, Marker:
		return true
	default: // they only read, or have no response
		return false
	}
	var id string
	switch req := e.Body.(type) {
	case *kmsg.HeartbeatRequest:
		id = req.Group
	case *kmsg.SyncGroupRequest:
		id = req.Group
	default:
		return true
	}
	g := s.groups[id]
	if g == nil {
		return false
	}
	c, uses := g.kind.(classicProtocol)
	return uses && c.writes(e.Body)
}

// End implements coordinator.Machine.
func (s *Shard) End() { s.countMemory(-s.memory) }

// Handle implements coordinator.Machine.
func (s *Shard) Handle(now time.Time, to coordinator.Ticket, event any, out *coordinator.Effects) {
	s.now, s.out = now, out
	switch e := event.(type) {
	case Request:
		s.request(to, e)
	case TopicsChanged:
		s.topicsChanged(e)
	case Closed:
		s.closed(e.Connection)
	case heartbeatMatch:
		s.resumeHeartbeat(to, e)
	case topicMatches:
		s.receiveMatches(e)
	case FetchOffsets:
		out.Reply(to, s.fetchOffsets(e))
	case Describe:
		out.Reply(to, s.describe(e))
	case DescribeConsumers:
		out.Reply(to, s.describeConsumers(e))
	case DescribeStreams:
		out.Reply(to, s.describeStreams(e))
	case DescribeShares:
		out.Reply(to, s.describeShares(e))
	case ShareStates:
		out.Reply(to, s.shareStates(e))
	case List:
		out.Reply(to, s.list(e))
	case Delete:
		s.deleteGroups(to, e)
	case SharesInitialized, SharesDeleted:
		out.Defer(sharesAnswered{e})
	case sharesAnswered:
		s.sharesAnswered(e)
	case Committed:
		out.Reply(to, s.committed())
	case TxnCommit:
		s.commitPending(to, e)
	case Marker:
		out.Reply(to, Marked{s.mark(e)})
	default:
		out.Reply(to, fmt.Errorf("group coordinator: unknown event %T", event))
	}
	s.out = nil
}

func (s *Shard) request(to coordinator.Ticket, e Request) {
	var id string
	switch req := e.Body.(type) {
	case *kmsg.JoinGroupRequest:
		id = req.Group
		s.join(to, e, req)
	case *kmsg.SyncGroupRequest:
		id = req.Group
		s.sync(to, e.Viewer, req)
	case *kmsg.HeartbeatRequest:
		id = req.Group
		s.heartbeat(to, req)
	case *kmsg.LeaveGroupRequest:
		id = req.Group
		s.leave(to, req)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		id = req.Group
		s.consumerHeartbeat(to, e, req)
	case *kmsg.StreamsGroupHeartbeatRequest:
		id = req.Group
		s.streamsHeartbeat(to, e, req)
	case *kmsg.ShareGroupHeartbeatRequest:
		id = req.GroupID
		s.shareHeartbeat(to, e, req)
	case *kmsg.AlterShareGroupOffsetsRequest:
		id = req.GroupID
		s.alterShares(to, req)
	case *kmsg.DeleteShareGroupOffsetsRequest:
		id = req.GroupID
		s.deleteShareOffsets(to, req)
	case *kmsg.OffsetCommitRequest:
		id = req.Group
		s.commit(to, req, e.Moved)
	case *kmsg.OffsetDeleteRequest:
		id = req.Group
		s.deleteOffsets(to, req)
	default:
		s.out.Reply(to, fmt.Errorf("group coordinator: unknown request %T", e.Body))
	}
	s.finishEvent(id)
}

// Loaded implements coordinator.Machine. Members get a full session, because requests sent during
// the load are not known; the runtime shortens it for members of a predecessor on this broker.
func (s *Shard) Loaded(now time.Time, epoch int32, out *coordinator.Effects) {
	s.now, s.out, s.epoch, s.loaded = now, out, epoch, now.UnixMilli()
	s.transactions.loaded(now)
	for _, g := range s.groups {
		g.kind.loaded(s, g)
	}
	s.setTimer(timerRetention, "", "", s.cfg.RetentionCheck)
	s.out = nil
}

// Fire implements coordinator.Machine.
func (s *Shard) Fire(now time.Time, key coordinator.TimerKey, out *coordinator.Effects) {
	s.now, s.out = now, out
	if key.Kind == timerRetention {
		s.expireOffsets()
		s.expireProducers()
	} else if key.Kind == timerTopics {
		s.applyTopicChanges()
	} else if g := s.groups[key.Owner]; g != nil {
		g.kind.fire(s, g, key)
	}
	s.finishEvent(key.Owner)
	s.out = nil
}

func (s *Shard) setTimer(kind uint8, owner, part string, after time.Duration) {
	s.out.Set(coordinator.TimerKey{Kind: kind, Owner: owner, Part: part}, s.now.Add(after))
}

func (s *Shard) cancelTimer(kind uint8, owner, part string) {
	s.out.Cancel(coordinator.TimerKey{Kind: kind, Owner: owner, Part: part})
}

// emit applies a record to the state and appends it to the effects.
func (s *Shard) emit(k format.Key, v value) {
	s.apply(k, v)
	r := coordinator.Record{Key: k.Encode()}
	if v != nil {
		r.Value = v.Encode()
	}
	s.out.Emit(r)
}

func (s *Shard) nowMillis() int64 { return s.now.UnixMilli() }

func millis(n int32) time.Duration { return time.Duration(n) * time.Millisecond }
