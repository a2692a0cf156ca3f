package group

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// Shard holds the groups of one partition of __consumer_offsets. It is a
// coordinator.Machine.
type Shard struct {
	cfg    Config
	topics Topics
	times  func(group string) Times
	groups map[string]*group
	held   int64 // bytes of cfg.Room
	// pending are the ids that were given out, by connection and in that order. Volatile.
	pending map[uint64][]pendingID
	// matched is what a heartbeat has waited for, while it is handled.
	matched *matched
	// rematching: a call matches all expressions again; rematched is what it has found and
	// is not recorded yet. Volatile.
	rematching bool
	rematched  *rematched
	// changes of topics that the records do not show yet. Volatile: a load is followed by
	// a TopicsChanged of all.
	changes changes

	// During one event.
	now time.Time
	out *coordinator.Effects
}

// New returns a shard without groups.
func New(cfg Config) *Shard {
	// What could never be kept is refused for good, and not with an error that asks the
	// member to try again.
	cfg.MaxRequest = min(cfg.MaxRequest, int(cfg.Room.size/shardShare/2))
	return &Shard{cfg: cfg, topics: noTopics{}, times: func(string) Times { return Times{} }, groups: map[string]*group{},
		pending: map[uint64][]pendingID{}}
}

// Request is a request about one group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup,
// ConsumerGroupHeartbeat, OffsetCommit or OffsetDelete. It is answered with the
// kmsg.Response of its version; any other request with an error. Topics in an OffsetCommit have both name and id,
// whatever the version.
type Request struct {
	// Connection is the number of the client's connection, 0 where it is not known.
	Connection           uint64
	ClientID, ClientHost string // ClientHost as Kafka writes it: "/127.0.0.1"
	Body                 kmsg.Request
}

// TopicsChanged tells the shard how topics are now. Nobody answers.
type TopicsChanged struct {
	Topics Topics
	// Changed are the names of topics that came, went, or got partitions; Deleted
	// those that are gone: what was committed for them goes too. Where All is set,
	// anything may have changed and nothing is said of what was deleted.
	Changed, Deleted []string
	All              bool
	// Times are what consumer groups have set for themselves, by the group's id.
	// Nil where none has, or where it is as it was.
	Times func(group string) Times
}

// Times are the times of a consumer group (KIP-848) where it has its own; 0 where it
// has the coordinator's. They hold from a member's next heartbeat on.
type Times struct{ Session, Heartbeat time.Duration }

// The kinds of timers. Owner is the group, Part the member.
const (
	timerSession    uint8 = iota + 1 // a member hasn't been heard of
	timerJoin                        // classic group: the join phase ends
	timerSync                        // classic group: not everybody has synced
	timerRebalance                   // consumer group: a member hasn't given up partitions
	timerMemberJoin                  // consumer group, classic member: hasn't rejoined
	timerMemberSync                  // consumer group, classic member: hasn't synced
	timerRetention                   // the shard looks for offsets that are to expire
	timerTopics                      // the shard records what follows from changes of topics
	timerTarget                      // consumer group: the next target may be computed
)

// Writes is coordinator.Machine.
func (s *Shard) Writes(event any) bool {
	var e Request
	switch event := event.(type) {
	case Request:
		e = event
	case Delete, matched:
		return true
	default: // they only read, or have no answer
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
	return g != nil && g.kind.writes(e.Body)
}

// End is coordinator.Machine.
func (s *Shard) End() { s.take(-s.held) }

// Handle is coordinator.Machine.
func (s *Shard) Handle(now time.Time, to coordinator.Ticket, event any, out *coordinator.Effects) {
	s.now, s.out = now, out
	switch e := event.(type) {
	case Request:
		s.request(to, e)
	case TopicsChanged:
		s.topicsChanged(e)
	case Closed:
		s.closed(e.Connection)
	case matched:
		s.goOn(to, e)
	case rematched:
		s.matchedAgain(e)
	case FetchOffsets:
		out.Reply(to, s.fetchOffsets(e))
	case Describe:
		out.Reply(to, s.describe(e))
	case DescribeConsumers:
		out.Reply(to, s.describeConsumers(e))
	case List:
		out.Reply(to, s.list(e))
	case Delete:
		out.Reply(to, s.deleteGroups(e))
	case Committed:
		out.Reply(to, s.committed())
	default:
		out.Reply(to, fmt.Errorf("the group coordinator knows no event %T", event))
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
		s.sync(to, req)
	case *kmsg.HeartbeatRequest:
		id = req.Group
		s.heartbeat(to, req)
	case *kmsg.LeaveGroupRequest:
		id = req.Group
		s.leave(to, req)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		id = req.Group
		s.consumerHeartbeat(to, e, req)
	case *kmsg.OffsetCommitRequest:
		id = req.Group
		s.commit(to, req)
	case *kmsg.OffsetDeleteRequest:
		id = req.Group
		s.deleteOffsets(to, req)
	default:
		s.out.Reply(to, fmt.Errorf("the group coordinator knows no request %T", e.Body))
	}
	s.finishEvent(id)
}

// Loaded is coordinator.Machine: members get their time anew, since what they sent
// while nobody listened is not known.
func (s *Shard) Loaded(now time.Time, out *coordinator.Effects) {
	s.now, s.out = now, out
	for _, g := range s.groups {
		g.kind.loaded(s, g)
	}
	s.setTimer(timerRetention, "", "", s.cfg.RetentionCheck)
	s.out = nil
}

// Fire is coordinator.Machine.
func (s *Shard) Fire(now time.Time, key coordinator.TimerKey, out *coordinator.Effects) {
	s.now, s.out = now, out
	if key.Kind == timerRetention {
		s.expireOffsets()
	} else if key.Kind == timerTopics {
		s.followTopics()
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

// emit makes a record: it changes the state, and is written.
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
