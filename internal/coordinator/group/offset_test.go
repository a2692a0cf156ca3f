package group

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// commitOf returns a commit of offset for partition 0 of a topic.
func commitOf(member string, generation int32, topic string, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation, req.RetentionTimeMillis = 9, "g", member, generation, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset, p.LeaderEpoch, p.Metadata = offset, 4, kmsg.StringPtr("note")
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, TopicID: idOf(topic),
		Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return req
}

func (w *world) commit(req *kmsg.OffsetCommitRequest) int16 {
	w.t.Helper()
	return ask[*kmsg.OffsetCommitResponse](w, request(req)).Topics[0].Partitions[0].ErrorCode
}

// fetched returns the committed offset for partition 0 of a topic.
func (w *world) fetched(topic string) kmsg.OffsetFetchResponseGroupTopicPartition {
	w.t.Helper()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = "g", []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{0}}}
	return ask[[]kmsg.OffsetFetchResponseGroup](w, FetchOffsets{Groups: []kmsg.OffsetFetchRequestGroup{g}})[0].Topics[0].Partitions[0]
}

func TestCommitWithoutAGroup(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	if p := w.fetched("t"); p.Offset != -1 || p.LeaderEpoch != -1 || *p.Metadata != "" || p.ErrorCode != 0 {
		t.Errorf("nothing is committed: %+v", p)
	}
	is(t, w.commit(commitOf("", -1, "t", 7)), nil)
	if p := w.fetched("t"); p.Offset != 7 || p.LeaderEpoch != 4 || *p.Metadata != "note" {
		t.Errorf("%+v", p)
	}
	all := kmsg.NewOffsetFetchRequestGroup()
	all.Group = "g"
	if g := ask[[]kmsg.OffsetFetchResponseGroup](w, FetchOffsets{Groups: []kmsg.OffsetFetchRequestGroup{all}})[0]; len(g.Topics) != 1 ||
		g.Topics[0].Topic != "t" || g.Topics[0].TopicID != idOf("t") {
		t.Errorf("%+v", g)
	}
	if got := ask[[]CommittedOffset](w, Committed{}); len(got) != 1 || got[0] != (CommittedOffset{"g", "t", idOf("t"), 0, 7}) {
		t.Errorf("%+v", got)
	}
	w.replays()
	if l := ask[[]kmsg.ListGroupsResponseGroup](w, List{}); len(l) != 1 || l[0].GroupState != "Empty" || l[0].GroupType != "classic" ||
		l[0].ProtocolType != "" {
		t.Errorf("%+v", l)
	}
}

func TestOldCommitsHaveNoLeaderEpochAndMayExpireEarly(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	req := commitOf("", -1, "t", 7)
	req.Version, req.RetentionTimeMillis = 4, 60_000
	is(t, w.commit(req), nil)
	if p := w.fetched("t"); p.LeaderEpoch != -1 {
		t.Errorf("%+v", p)
	}
	w.replays()
	w.advance(11 * time.Minute) // the retention check runs every 10
	if p := w.fetched("t"); p.Offset != -1 || w.state("g") != "Dead" {
		t.Errorf("%+v", p)
	}
}

func TestAnOldCommitForEverDoesNotExpire(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	req := commitOf("", -1, "t", 7)
	req.Version, req.RetentionTimeMillis = 4, math.MaxInt64
	is(t, w.commit(req), nil)
	w.replays()
	w.advance(30 * 24 * time.Hour)
	if p := w.fetched("t"); p.Offset != 7 {
		t.Errorf("%+v", p)
	}
}

func TestCommitsOfAClassicGroup(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	missing := commitOf("m", 1, "t", 1)
	is(t, w.commit(missing), kerr.GroupIDNotFound)
	missing.Version = 8
	is(t, w.commit(missing), kerr.IllegalGeneration)

	leader, other, gen := w.two()
	is(t, w.commit(commitOf(other, gen, "t", 1)), nil)
	is(t, w.commit(commitOf(other, gen-1, "t", 1)), kerr.IllegalGeneration)
	is(t, w.commit(commitOf("m", gen, "t", 1)), kerr.UnknownMemberID)
	is(t, w.commit(commitOf("", -1, "t", 1)), kerr.UnknownMemberID)
	fenced := commitOf(other, gen, "t", 1)
	fenced.InstanceID = kmsg.StringPtr("i")
	is(t, w.commit(fenced), kerr.UnknownMemberID)
	long := commitOf(other, gen, "t", 9)
	long.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 4097))
	is(t, w.commit(long), kerr.OffsetMetadataTooLarge)

	_, j := w.join(leader)
	is(t, w.commit(commitOf(other, gen, "t", 2)), nil) // it may commit its progress before it rejoins
	_, k := w.join(other)
	w.joined(j)
	w.joined(k)
	is(t, w.commit(commitOf(other, gen+1, "t", 3)), kerr.RebalanceInProgress)
	is(t, w.commit(commitOf(other, gen, "t", 3)), kerr.IllegalGeneration)
	if p := w.fetched("t"); p.Offset != 2 {
		t.Errorf("%+v", p)
	}
	w.replays()
}

// A commit extends a member's session, as a heartbeat does.
func TestCommitExtendsTheSession(t *testing.T) {
	w := newWorld(t)
	leader, other, gen := w.two()
	for range 5 {
		w.advance(6 * time.Second)
		is(t, w.commit(commitOf(other, gen, "t", 1)), nil)
		is(t, w.beat(leader, gen), nil)
	}
}

func TestCommitsOfAConsumerGroup(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	a := w.newClient("a", "t")
	is(t, w.commit(commitOf("a", a.epoch, "t", 1)), nil)
	old := commitOf("a", a.epoch, "t", 1)
	old.Version = 8
	is(t, w.commit(old), kerr.UnsupportedVersion)
	is(t, w.commit(commitOf("b", a.epoch, "t", 1)), kerr.UnknownMemberID)
	is(t, w.commit(commitOf("a", a.epoch+1, "t", 1)), kerr.StaleMemberEpoch)
	is(t, w.commit(commitOf("", -1, "t", 1)), kerr.UnknownMemberID)

	// KIP-1251: its epoch advanced without its knowledge; it may still commit the partitions it
	// owned.
	before := a.epoch
	b := w.newClient("b", "t")
	stabilize(w, a, b)
	mine := slices.Contains(a.has[idOf("t")], 0)
	lagging := commitOf("a", before, "t", 5)
	if !mine {
		lagging.Topics[0].Partitions[0].Partition = 1
	}
	is(t, w.commit(lagging), nil)
	lagging.Topics[0].Partitions[0].Partition = 1 - lagging.Topics[0].Partitions[0].Partition
	is(t, w.commit(lagging), kerr.StaleMemberEpoch)

	fetch := func(member *string, epoch int32) int16 {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberID, g.MemberEpoch = "g", member, epoch
		return ask[[]kmsg.OffsetFetchResponseGroup](w, FetchOffsets{Groups: []kmsg.OffsetFetchRequestGroup{g}})[0].ErrorCode
	}
	is(t, fetch(nil, -1), nil)
	is(t, fetch(kmsg.StringPtr("a"), a.epoch), nil)
	is(t, fetch(kmsg.StringPtr("a"), a.epoch-1), kerr.StaleMemberEpoch)
	is(t, fetch(kmsg.StringPtr("x"), a.epoch), kerr.UnknownMemberID)
	w.replays()
}

func TestOffsetsOfDeletedAndRecreatedTopics(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	is(t, w.commit(commitOf("", -1, "t", 7)), nil)
	req := commitOf("", -1, "u", 8)
	req.Topics[0].TopicID = [16]byte{1} // of an earlier topic whose deletion the shard missed
	is(t, w.commit(req), nil)
	w.topic("u", 1)
	if p := w.fetched("u"); p.Offset != -1 {
		t.Errorf("%+v", p)
	}
	w.topic("t", 0)
	if p := w.fetched("t"); p.Offset != -1 {
		t.Errorf("%+v", p)
	}
	w.replays()
}

func deleteOf(topics ...string) *kmsg.OffsetDeleteRequest {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "g"
	for _, t := range topics {
		req.Topics = append(req.Topics, kmsg.OffsetDeleteRequestTopic{Topic: t,
			Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}})
	}
	return req
}

func TestOffsetDelete(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.topic("u", 1)
	is(t, ask[*kmsg.OffsetDeleteResponse](w, request(deleteOf("t"))).ErrorCode, kerr.GroupIDNotFound)
	leader, _, gen := w.two() // subscribes to t
	is(t, w.commit(commitOf(leader, gen, "t", 1)), nil)
	is(t, w.commit(commitOf(leader, gen, "u", 1)), nil)
	resp := ask[*kmsg.OffsetDeleteResponse](w, request(deleteOf("t", "u", "v")))
	is(t, resp.Topics[0].Partitions[0].ErrorCode, kerr.GroupSubscribedToTopic)
	is(t, resp.Topics[1].Partitions[0].ErrorCode, nil)
	is(t, resp.Topics[2].Partitions[0].ErrorCode, nil)
	if w.fetched("t").Offset != 1 || w.fetched("u").Offset != -1 {
		t.Error("the wrong one was deleted")
	}
	w.replays()
}

// As in Kafka, a subscription's topics are known if its first fields can be decoded, whatever its
// version. A member with an undecodable subscription may subscribe to any topic.
func TestOffsetDeleteReadsTheStartOfASubscription(t *testing.T) {
	topics := []byte{0, 1, 0, 0, 0, 1, 0, 1, 'u'} // version 1, one topic
	for name, c := range map[string]struct {
		subscription []byte
		want         *kerr.Error
	}{
		"cut after the topics":    {topics, kerr.GroupSubscribedToTopic},
		"cut after the user data": {append(slices.Clone(topics), 0xff, 0xff, 0xff, 0xff), nil},
		"of a later version":      {append([]byte{0, 9}, append(topics[2:], 0xff, 0xff, 0xff, 0xff)...), nil},
	} {
		w := newWorld(t)
		w.topic("t", 1)
		id, ticket := w.join("", func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Metadata = c.subscription })
		w.advance(0)
		w.sync(id, w.joined(ticket).Generation, id, "")
		resp := ask[*kmsg.OffsetDeleteResponse](w, request(deleteOf("t")))
		t.Run(name, func(t *testing.T) { is(t, resp.Topics[0].Partitions[0].ErrorCode, c.want) })
	}
}

func TestDeleteGroups(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	leader, other, gen := w.two()
	is(t, w.commit(commitOf(leader, gen, "t", 1)), nil)
	remove := func() []kmsg.DeleteGroupsResponseGroup {
		return ask[[]kmsg.DeleteGroupsResponseGroup](w, Delete{Groups: []string{"g", "none"}})
	}
	got := remove()
	is(t, got[0].ErrorCode, kerr.NonEmptyGroup)
	is(t, got[1].ErrorCode, kerr.GroupIDNotFound)
	w.leave(kmsg.LeaveGroupRequestMember{MemberID: other})
	w.leave(kmsg.LeaveGroupRequestMember{MemberID: leader})
	is(t, remove()[0].ErrorCode, nil)
	if len(w.shard.groups) != 0 || len(compact(w.log)) != 0 {
		t.Error("something is left of the group")
	}
	w.replays()

	w.newClient("a", "t")
	is(t, remove()[0].ErrorCode, kerr.NonEmptyGroup)
	is(t, w.consumerBeat(heartbeatOf("a", -1)).ErrorCode, nil)
	is(t, remove()[0].ErrorCode, nil)
	if len(compact(w.log)) != 0 {
		t.Error("something is left of the consumer group")
	}
	w.replays()
}

// A group's offsets expire when it has had no members for the retention, but not while a member may
// be reading them.
func TestRetention(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Retention = time.Hour })
	w.topic("t", 1)
	w.topic("u", 1)
	leader, other, gen := w.two() // subscribes to t
	is(t, w.commit(commitOf(leader, gen, "t", 1)), nil)
	is(t, w.commit(commitOf(leader, gen, "u", 1)), nil)
	for range 20 * 60 {
		w.advance(9 * time.Second)
		is(t, w.beat(leader, gen), nil)
		is(t, w.beat(other, gen), nil)
	}
	if w.fetched("t").Offset != 1 || w.fetched("u").Offset != -1 {
		t.Errorf("after 3 hours: %+v, %+v", w.fetched("t"), w.fetched("u"))
	}
	w.leave(kmsg.LeaveGroupRequestMember{MemberID: other})
	w.leave(kmsg.LeaveGroupRequestMember{MemberID: leader})
	w.advance(49 * time.Minute) // from the time the last member left, not from the commit
	if w.fetched("t").Offset != 1 {
		t.Error("it expired too early")
	}
	w.start() // a reload must know when the group became empty
	w.advance(22 * time.Minute)
	if w.fetched("t").Offset != -1 || w.state("g") != "Dead" || len(compact(w.log)) != 0 {
		t.Errorf("%+v, the group is %s", w.fetched("t"), w.state("g"))
	}
	w.replays()
}

func TestRetentionContinuesSoonAfterAFullBatch(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	req := commitOf("", -1, "t", 7)
	p := req.Topics[0].Partitions[0]
	for i := range int32(maxTombstones + 10) {
		p.Partition = i
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	is(t, w.commit(req), nil)
	w.advance(7*24*time.Hour + 11*time.Minute)
	if len(w.shard.groups) != 0 {
		t.Error("something is left")
	}
	if at := w.timers[coordinator.TimerKey{Kind: timerRetention}]; at.Sub(w.now) > w.cfg.RetentionCheck || at.Sub(w.now) < time.Minute {
		t.Error(at.Sub(w.now))
	}
}

func TestDescribeAndList(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	leader, other, _ := w.two()
	d := ask[[]kmsg.DescribeGroupsResponseGroup](w, Describe{Groups: []string{"g", "none"}, Version: 6})
	if g := d[0]; g.State != "Stable" || g.ProtocolType != "consumer" || g.Protocol != "range" || len(g.Members) != 2 ||
		g.Members[0].MemberID != leader || string(g.Members[1].MemberAssignment) != "two" || g.Members[1].ClientHost != "/1.2.3.4" {
		t.Errorf("%+v", g)
	}
	is(t, d[1].ErrorCode, kerr.GroupIDNotFound)
	if d[1].State != "Dead" || *d[1].ErrorMessage != "Group none not found." {
		t.Errorf("%+v", d[1])
	}
	if old := ask[[]kmsg.DescribeGroupsResponseGroup](w, Describe{Groups: []string{"none"}, Version: 5})[0]; old.State != "Dead" ||
		old.ErrorCode != 0 {
		t.Errorf("%+v", old)
	}
	is(t, w.described().ErrorCode, kerr.GroupIDNotFound)
	w.join(leader)
	if g := ask[[]kmsg.DescribeGroupsResponseGroup](w, Describe{Groups: []string{"g"}})[0]; g.State != "PreparingRebalance" ||
		g.Protocol != "" || len(g.Members[0].ProtocolMetadata) != 0 {
		t.Errorf("%+v", g)
	}
	list := func(e List) int { return len(ask[[]kmsg.ListGroupsResponseGroup](w, e)) }
	if list(List{States: FilterOf([]string{"preparingrebalance"})}) != 1 || list(List{States: FilterOf([]string{"Stable"})}) != 0 ||
		list(List{Types: FilterOf([]string{"Classic"})}) != 1 || list(List{Types: FilterOf([]string{"consumer"})}) != 0 {
		t.Error("filters")
	}
	_ = other
}

func TestRefuseMatchesTheResponseType(t *testing.T) {
	commit := commitOf("m", 1, "t", 1)
	if r := Refuse(commit, kerr.NotCoordinator).(*kmsg.OffsetCommitResponse); r.Version != 9 ||
		r.Topics[0].Partitions[0].ErrorCode != kerr.NotCoordinator.Code {
		t.Errorf("%+v", r)
	}
	beat := kmsg.NewPtrHeartbeatRequest()
	if r := Refuse(beat, kerr.CoordinatorLoadInProgress).(*kmsg.HeartbeatResponse); r.ErrorCode != kerr.CoordinatorNotAvailable.Code {
		t.Errorf("%+v", r)
	}
	if r := Refuse(syncOf("m", 1), kerr.CoordinatorLoadInProgress).(*kmsg.SyncGroupResponse); r.ErrorCode != kerr.RebalanceInProgress.Code {
		t.Errorf("%+v", r)
	}
	if r := Refuse(beat, kerr.NotCoordinator).(*kmsg.HeartbeatResponse); r.ErrorCode == 0 {
		t.Errorf("%+v", r)
	}
	if Refuse(kmsg.NewPtrCreateTopicsRequest(), kerr.NotCoordinator) != nil {
		t.Error("an answer without a field for the error")
	}
	// An API that needs nothing special has no case of its own.
	if r := Refuse(kmsg.NewPtrConsumerGroupDescribeRequest(), kerr.NotCoordinator); r != nil {
		t.Errorf("%+v", r)
	}
	if r := Refuse(kmsg.NewPtrShareGroupHeartbeatRequest(), kerr.NotCoordinator).(*kmsg.ShareGroupHeartbeatResponse); r.ErrorCode !=
		kerr.NotCoordinator.Code {
		t.Errorf("%+v", r)
	}
	w := newWorld(t)
	for _, e := range []any{"what?", request(kmsg.NewPtrMetadataRequest())} {
		if ask[error](w, e) == nil {
			t.Errorf("%v is answered with success", e)
		}
	}
	for _, req := range []kmsg.Request{joinOf("m"), syncOf("m", 1), kmsg.NewPtrLeaveGroupRequest(), heartbeatOf("m", 1), deleteOf("t")} {
		r := Refuse(req, kerr.CoordinatorLoadInProgress)
		if r.GetVersion() != req.GetVersion() || r.Key() != req.Key() {
			t.Errorf("%T", r)
		}
	}
}
