package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// kind is what the members of a group agree on, and how. *classic and *consumer are the
// kinds there are; another one implements this, and apply.go gives a group its kind when
// the first record of it comes. Methods that take the shard may emit records, answer and
// set timers, as part of an event or of a timer.
type kind interface {
	// name, state and protocolName are as ListGroups shows them.
	name() string
	stateName() string
	protocolName() string

	// empty: no members. idle: nor any on their way. blank: nothing at all is known of the
	// group, so that it can be forgotten where it has no offsets either.
	empty() bool
	idle() bool
	blank() bool
	// weight is how many bytes the members make the broker keep, see Room; weightOf is that
	// of one member, 0 where there is none of that id.
	weight() int
	weightOf(id string) int

	// join, sync, beat and leave are the requests of the classic protocol, which a consumer
	// group answers as well (KIP-848). left follows calls of leave of which one or more
	// took a member out.
	join(s *Shard, g *group, j joining)
	sync(s *Shard, g *group, p parked, req *kmsg.SyncGroupRequest)
	heartbeat(s *Shard, g *group, req *kmsg.HeartbeatRequest) *failure
	leave(s *Shard, g *group, m kmsg.LeaveGroupRequestMember) (id string, f *failure)
	left(s *Shard, g *group)
	// writes reports whether one of these, or another request, may make records.
	writes(req kmsg.Request) bool

	// subscriptions reports of topics whether members subscribe to them, as of now; known is
	// false where the broker can't read them. keeps reports whether nothing of a topic may
	// expire, since a member may be reading it.
	subscriptions() (subscribes func(topic string) bool, known bool)
	readTopics() func(topic string) bool
	// emptied is when the last member went, in ms since 1970; false where the retention of
	// offsets counts from the commit.
	emptied() (ms int64, counts bool)
	// checkCommit returns why a commit is refused; allowed, if it is not nil, why it is for
	// one partition. checkFetch returns why offsets are not shown.
	checkCommit(req *kmsg.OffsetCommitRequest) (allowed func(topic [16]byte, partition int32) *failure, f *failure)
	checkFetch(want *kmsg.OffsetFetchRequestGroup) *failure
	// committing follows a commit that is allowed.
	committing(s *Shard, g *group, member string)

	// loaded sets the timers of a group that was just loaded; fire takes one of them.
	loaded(s *Shard, g *group)
	fire(s *Shard, g *group, key coordinator.TimerKey)
	// topicsChanged notes that topics came, went or grew. It makes no records.
	topicsChanged(e TopicsChanged)
	// drop removes the group's own records. The group has no members.
	drop(s *Shard, g *group)
}
