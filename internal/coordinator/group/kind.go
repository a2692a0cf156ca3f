package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// kind is a group's protocol: what its members agree on, and how. The kinds are *classic,
// *consumer, *streams and *share. apply.go gives a group its kind with the first record of it.
// Methods with a Shard argument are part of an event or timer, and may emit records, answer, and
// set timers.
type kind interface {
	// name, stateName and protocolName are shown by ListGroups.
	name() string
	stateName() string
	protocolName() string

	// empty reports whether the group has no members. expires reports whether it is deleted if it
	// also has no offsets: it has no members and no pending ids, and is no share group. forgettable
	// reports whether nothing is known about the group, so that it can be removed if it
	// also has no offsets.
	empty() bool
	expires() bool
	forgettable() bool
	// weight returns the number of bytes that the members occupy, see coordinator.MemoryBudget.
	// weightOf returns that of one member, 0 if there is none.
	weight() int
	weightOf(id string) int

	// join, sync, heartbeat and leave are the requests of the classic protocol, which a consumer
	// group answers as well (KIP-848). afterLeave is called once after calls of leave that removed
	// a member.
	join(s *Shard, g *group, j joining)
	sync(s *Shard, g *group, p parked, v Viewer, req *kmsg.SyncGroupRequest)
	heartbeat(s *Shard, g *group, req *kmsg.HeartbeatRequest) *failure
	leave(s *Shard, g *group, m kmsg.LeaveGroupRequestMember) (id string, f *failure)
	afterLeave(s *Shard, g *group)
	// writes reports whether a request may emit records.
	writes(req kmsg.Request) bool

	// subscriptions returns a function that reports whether members currently subscribe to a topic;
	// known is false if the broker can't read the subscriptions. readTopics returns a function that
	// reports whether a member may be reading a topic, so that its offsets must not expire.
	subscriptions() (subscribes func(topic string) bool, known bool)
	readTopics() func(topic string) bool
	// emptySince returns when the last member left, in ms since 1970. It returns false if the
	// retention of offsets starts at the commit.
	emptySince() (ms int64, counts bool)
	// checkCommit returns why a commit is refused. checkFetch returns why a fetch of offsets is
	// refused.
	checkCommit(by committer) (partitionCheck, *failure)
	checkFetch(want *kmsg.OffsetFetchRequestGroup) *failure
	// commitAllowed is called after a commit was allowed.
	commitAllowed(s *Shard, g *group, member string)

	// loaded sets the timers of a group that was just loaded; fire handles one of them.
	loaded(s *Shard, g *group)
	fire(s *Shard, g *group, key coordinator.TimerKey)
	// topicsChanged notes created, deleted or grown topics. It emits no records.
	topicsChanged(e TopicsChanged)
	// removeRecords deletes the group's own records. The group has no members.
	removeRecords(s *Shard, g *group)
}
