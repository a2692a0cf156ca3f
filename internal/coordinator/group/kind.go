package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// kind is a group's protocol: what its members agree on, and how. The kinds are *classic,
// *consumer, *streams and *share. apply.go gives a group its kind with the first record of it.
// Methods with a Shard argument are part of an event or timer, and may emit records, answer, and
// set timers. What only some kinds have are interfaces of their own: classicProtocol, offsetKeeper
// and targeted.
type kind interface {
	// listed returns what ListGroups shows.
	listed() (name, protocol, state string)
	// empty reports whether the group has no members. expires reports whether it is deleted if it
	// also has no offsets: it has no members and no pending ids, and is no share group.
	empty() bool
	expires() bool
	// weight returns the number of bytes that the members occupy, see coordinator.MemoryBudget.
	// weightOf returns that of one member, 0 if there is none.
	weight() int
	weightOf(id string) int
	// loaded sets the timers of a group that was just loaded; fire handles one of them.
	loaded(s *Shard, g *group)
	fire(s *Shard, g *group, key coordinator.TimerKey)
	// removeRecords deletes the group's own records. The group has no members.
	removeRecords(s *Shard, g *group)
}

// classicProtocol is a kind whose members may use the classic protocol: *classic, and *consumer
// (KIP-848). Shard refuses its requests for the other kinds.
type classicProtocol interface {
	// join, sync, heartbeat and leave are the requests. afterLeave is called once after calls of
	// leave that removed a member.
	join(s *Shard, g *group, j joining)
	sync(s *Shard, g *group, p parked, v Viewer, req *kmsg.SyncGroupRequest)
	heartbeat(s *Shard, g *group, req *kmsg.HeartbeatRequest) *failure
	leave(s *Shard, g *group, m kmsg.LeaveGroupRequestMember) (id string, f *failure)
	afterLeave(s *Shard, g *group)
	// writes reports whether a Heartbeat or SyncGroup may emit records.
	writes(req kmsg.Request) bool
}

// offsetKeeper is a kind with committed offsets: all except *share.
type offsetKeeper interface {
	// subscriptions returns a function that reports whether members currently subscribe to a topic;
	// known is false if the broker can't read the subscriptions. readTopics returns a function that
	// reports whether a member may be reading a topic, so that its offsets must not expire.
	subscriptions() (subscribes func(topic string) bool, known bool)
	readTopics() func(topic string) bool
	// checkCommit returns why a commit is refused. checkFetch returns why a fetch of offsets is
	// refused.
	checkCommit(by committer) (partitionCheck, *failure)
	checkFetch(want *kmsg.OffsetFetchRequestGroup) *failure
}

// targeted is a kind whose target depends on topics: all except *classic, whose members compute it.
type targeted interface {
	// topicsChanged notes created, deleted or grown topics. It emits no records.
	topicsChanged(e TopicsChanged)
}

// Which kind is what: an assertion that fails while the broker runs would refuse its requests.
var (
	_ = []kind{(*classic)(nil), (*consumer)(nil), (*streams)(nil), (*share)(nil)}
	_ = []classicProtocol{(*classic)(nil), (*consumer)(nil)}
	_ = []offsetKeeper{(*classic)(nil), (*consumer)(nil), (*streams)(nil)}
	_ = []targeted{(*consumer)(nil), (*streams)(nil), (*share)(nil)}
)
