package group

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// The offsets of a deleted topic are deleted in batches of limited size, and none is missed.
func TestOffsetsOfADeletedTopicAreDeletedInBatches(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1000)
	w.topic("u", 1)
	const groups, partitions = 30, 1000
	for i := range groups {
		req := commitOf("", -1, "t", 7)
		req.Group = fmt.Sprint("g", i)
		p := req.Topics[0].Partitions[0]
		req.Topics[0].Partitions = nil
		for n := range int32(partitions) {
			p.Partition = n
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		}
		is(t, w.commit(req), nil)
	}
	is(t, w.commit(commitOf("", -1, "u", 1)), nil)
	delete(w.topics.list, "t")
	w.event(TopicsChanged{Topics: w.topics.clone(), Changed: []string{"t"}, Deleted: []string{"t"}})
	key := coordinator.TimerKey{Kind: timerTopics}
	all := kmsg.NewOffsetFetchRequestGroup()
	all.Group = "g1"
	if resp := ask[[]kmsg.OffsetFetchResponseGroup](w, FetchOffsets{Groups: []kmsg.OffsetFetchRequestGroup{all}})[0]; len(resp.Topics) > 0 {
		t.Error("deleted offsets are still shown")
	}
	left := groups * partitions
	for rounds := 0; left > 0; rounds++ {
		at, set := w.timers[key]
		if !set || rounds > 10 {
			t.Fatalf("%d offsets are left and no timer is set", left)
		}
		delete(w.timers, key)
		w.now = later(w.now, at)
		var out coordinator.Effects
		w.shard.Fire(w.now, key, &out)
		if n := len(out.Records); n == 0 || n > maxTombstones {
			t.Fatalf("%d tombstones at once", n)
		}
		left -= len(out.Records)
		w.take(out)
	}
	w.advance(tombstoneDelay)
	if len(w.shard.groups) != 1 || w.fetched("u").Offset != 1 {
		t.Errorf("%d groups are left", len(w.shard.groups))
	}
	if _, set := w.timers[key]; set {
		t.Error("the timer is set without work")
	}
	w.replays()
}

// Between the deletion of a topic and the tombstones, a topic of the same name may be created and
// get commits.
func TestCommitForARecreatedTopicStays(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	is(t, w.commit(commitOf("", -1, "t", 7)), nil)
	old := commitOf("", -1, "t", 8)
	old.Group, old.Topics[0].TopicID = "old", [16]byte{9}
	is(t, w.commit(old), nil)
	w.event(TopicsChanged{Topics: w.topics.clone(), Changed: []string{"t"}, Deleted: []string{"t"}})
	is(t, w.commit(commitOf("", -1, "t", 1)), nil) // idOf("t") is the id of the new topic
	w.advance(0)
	if p := w.fetched("t"); p.Offset != 1 {
		t.Errorf("%+v", p)
	}
	if w.shard.groups["old"] != nil {
		t.Error("the commit for the earlier topic is still there")
	}
}

// While the log accepts no records, heartbeats of classic members still count, and requests that
// only read are answered.
func TestWhichRequestsWrite(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	leader, other, gen := w.two()
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.Generation = "g", other, gen
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = "g", leader, gen
	for _, c := range []struct {
		event  any
		writes bool
	}{
		{request(beat), false}, {request(sync), false}, {request(commitOf(leader, gen, "t", 1)), true}, {request(joinOf("")), true},
		{List{}, false}, {Describe{}, false}, {DescribeConsumers{}, false}, {FetchOffsets{}, false}, {Committed{}, false}, {Delete{}, true},
	} {
		if got := w.shard.Writes(c.event); got != c.writes {
			t.Errorf("%T: %v", c.event, got)
		}
	}
	sync.Group, beat.Group = "none", "none"
	if w.shard.Writes(request(sync)) || w.shard.Writes(request(beat)) {
		t.Error("the group does not exist")
	}
	w.join(leader)
	w.join(other)
	sync.Group = "g"
	if !w.shard.Writes(request(sync)) {
		t.Error("the leader's assignment is recorded")
	}
	sync.MemberID = other
	if w.shard.Writes(request(sync)) {
		t.Error("a member that waits for the leader writes no records")
	}
}
