package group

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (w *world) alter(req *kmsg.AlterShareGroupOffsetsRequest) *kmsg.AlterShareGroupOffsetsResponse {
	w.t.Helper()
	return ask[*kmsg.AlterShareGroupOffsetsResponse](w, request(req))
}

func (w *world) forget(id string, topics ...string) *kmsg.DeleteShareGroupOffsetsResponse {
	w.t.Helper()
	return ask[*kmsg.DeleteShareGroupOffsetsResponse](w, request(forgetOf(id, topics...)))
}

// positions returns the states that the group knows of.
func (w *world) positions() []ShareTopic {
	w.t.Helper()
	return ask[[]StatesOf](w, ShareStates{Groups: []string{"g"}})[0].Topics
}

// The answers are those of Kafka 4.3.1 (observed), except for negative offsets, which it stores.
func TestShareOffsetsAreAlteredLikeKafka(t *testing.T) {
	w, store := shareWorld(t)
	is(t, w.alter(alterOf("", []string{"t"}, []int32{0}, 5)).ErrorCode, kerr.InvalidGroupID)
	is(t, w.alter(alterOf("g", nil, nil, 0)).ErrorCode, nil)
	resp := w.alter(alterOf("g", []string{"none"}, []int32{0}, 5))
	if p := resp.Topics[0].Partitions[0]; resp.ErrorCode != 0 || p.ErrorCode != kerr.UnknownTopicOrPartition.Code ||
		*p.ErrorMessage != "This server does not host this topic-partition." {
		t.Errorf("%+v", resp)
	}
	resp = w.alter(alterOf("g", []string{"t"}, []int32{0}, -1))
	is(t, resp.Topics[0].Partitions[0].ErrorCode, kerr.InvalidRequest)
	is(t, w.alter(alterOf("g", []string{"t"}, []int32{0, 0}, 1)).ErrorCode, kerr.InvalidRequest)
	if len(w.shard.groups) > 0 {
		t.Error("there is a group, and nothing was altered")
	}

	ticket := w.send(request(alterOf("g", []string{"t", "none"}, []int32{0, 9}, 5)))
	w.waits(ticket)
	is(t, w.alter(alterOf("g", []string{"t"}, []int32{0}, 6)).ErrorCode, kerr.CoordinatorLoadInProgress) // one at a time
	store.rest()
	resp = answer[*kmsg.AlterShareGroupOffsetsResponse](w, ticket)
	for i, want := range []*kerr.Error{nil, kerr.UnknownTopicOrPartition} {
		is(t, resp.Topics[0].Partitions[i].ErrorCode, want)
		is(t, resp.Topics[1].Partitions[i].ErrorCode, kerr.UnknownTopicOrPartition)
	}
	at := SharePartition{idOf("t"), 0}
	if resp.Topics[0].TopicID != at.Topic || store.starts[at] != 5 || w.state("g") != "Empty" {
		t.Errorf("%+v, starts %v, %s", resp, store.starts, w.state("g"))
	}
	if got := w.positions(); len(got) != 1 || got[0].Name != "t" || !slices.Equal(got[0].Partitions, []int32{0}) {
		t.Errorf("%+v", got)
	}
	ticket = w.send(request(alterOf("g", []string{"t"}, []int32{0}, 3))) // back
	store.rest()
	is(t, answer[*kmsg.AlterShareGroupOffsetsResponse](w, ticket).Topics[0].Partitions[0].ErrorCode, nil)
	if store.starts[at] != 3 {
		t.Errorf("starts %v", store.starts)
	}
	w.replays()

	a := w.newShareClient("a", "t")
	is(t, w.alter(alterOf("g", []string{"t"}, []int32{0}, 6)).ErrorCode, kerr.NonEmptyGroup)
	is(t, w.forget("g", "t").ErrorCode, kerr.NonEmptyGroup)
	store.rest()
	w.advance(time.Second)
	is(t, a.beat(), nil)
	if a.has.Count() != 3 || store.starts[at] != 3 || store.starts[SharePartition{at.Topic, 1}] != -1 {
		t.Errorf("assigned %v, starts %v", a.has, store.starts)
	}
}

// A share coordinator that fails makes no group and no state that is not recorded.
func TestShareOffsetsThatCannotBeAltered(t *testing.T) {
	w, store := shareWorld(t)
	ticket := w.send(request(alterOf("g", []string{"t"}, []int32{0}, 5)))
	store.collect()
	store.answer(func() bool { return true })
	resp := answer[*kmsg.AlterShareGroupOffsetsResponse](w, ticket)
	is(t, resp.Topics[0].Partitions[0].ErrorCode, kerr.CoordinatorNotAvailable)
	if x := w.shard.groups["g"].share().states; x.initializing[idOf("t")] == nil {
		t.Errorf("%+v", x)
	}
	w.start() // a load repeats the request, without the offset
	store.rest()
	if x := store.starts[SharePartition{idOf("t"), 0}]; x != -1 || w.shard.groups["g"].share().states.unfinished() {
		t.Errorf("starts at %d, %+v", x, w.shard.groups["g"].share().states)
	}
	consumers := request(&kmsg.OffsetCommitRequest{Version: 1, Group: "c", Generation: -1, Topics: []kmsg.OffsetCommitRequestTopic{
		{Topic: "t", TopicID: idOf("t"), Partitions: make([]kmsg.OffsetCommitRequestTopicPartition, 1)}}})
	is(t, ask[*kmsg.OffsetCommitResponse](w, consumers).Topics[0].Partitions[0].ErrorCode, nil)
	is(t, w.alter(alterOf("c", []string{"t"}, []int32{0}, 5)).ErrorCode, kerr.GroupIDNotFound)
	is(t, w.forget("c", "t").ErrorCode, kerr.GroupIDNotFound)
}

// The answers are those of Kafka 4.3.1 (observed).
func TestShareOffsetsAreDeletedLikeKafka(t *testing.T) {
	w, store := shareWorld(t)
	w.topic("u", 2)
	is(t, w.forget("", "t").ErrorCode, kerr.InvalidGroupID)
	is(t, w.forget("g", "t").ErrorCode, kerr.GroupIDNotFound)
	is(t, w.forget("g").ErrorCode, kerr.GroupIDNotFound)
	w.newShareClient("a", "t")
	store.rest()
	is(t, w.shareBeat(shareBeatOf("a", -1)).ErrorCode, nil)
	is(t, w.forget("g").ErrorCode, nil)
	ticket := w.send(request(forgetOf("g", "t", "u", "none", "t")))
	other := w.send(request(forgetOf("g", "t"))) // it waits for the same
	w.waits(ticket)
	is(t, w.alter(alterOf("g", []string{"t"}, []int32{0}, 6)).ErrorCode, kerr.CoordinatorLoadInProgress)
	store.rest()
	resp := answer[*kmsg.DeleteShareGroupOffsetsResponse](w, ticket)
	for i, want := range []*kerr.Error{nil, kerr.UnknownTopicOrPartition, kerr.UnknownTopicOrPartition, nil} {
		is(t, resp.Topics[i].ErrorCode, want)
	}
	is(t, answer[*kmsg.DeleteShareGroupOffsetsResponse](w, other).Topics[0].ErrorCode, nil)
	if *resp.Topics[1].ErrorMessage != "There is no offset information to delete." || resp.Topics[0].TopicID != idOf("t") ||
		len(store.states) > 0 || len(w.positions()) > 0 || w.state("g") != "Empty" {
		t.Errorf("%+v, states %v", resp, store.states)
	}
	is(t, w.forget("g", "t").Topics[0].ErrorCode, kerr.UnknownTopicOrPartition)
	w.replays()

	ticket = w.send(request(alterOf("g", []string{"u"}, []int32{0}, 6)))
	store.rest()
	is(t, answer[*kmsg.AlterShareGroupOffsetsResponse](w, ticket).Topics[0].Partitions[0].ErrorCode, nil)
	ticket = w.send(request(forgetOf("g", "u")))
	store.collect()
	store.answer(func() bool { return true })
	is(t, answer[*kmsg.DeleteShareGroupOffsetsResponse](w, ticket).Topics[0].ErrorCode, kerr.CoordinatorNotAvailable)
	ticket = w.send(request(forgetOf("g", "u"))) // at once, in spite of the pause
	store.collect()
	w.topic("u", 0) // the states go with the topic
	is(t, answer[*kmsg.DeleteShareGroupOffsetsResponse](w, ticket).Topics[0].ErrorCode, nil)
}

// What waits for a group is answered when the group is gone.
func TestShareOffsetsOfAGroupThatIsDeleted(t *testing.T) {
	w, store := shareWorld(t)
	altered := w.send(request(alterOf("g", []string{"t"}, []int32{0}, 5)))
	store.collect()
	deleted := w.send(Delete{Groups: []string{"g"}})
	w.topic("t", 0) // nothing is left to wait for
	is(t, answer[[]kmsg.DeleteGroupsResponseGroup](w, deleted)[0].ErrorCode, nil)
	is(t, answer[*kmsg.AlterShareGroupOffsetsResponse](w, altered).Topics[0].Partitions[0].ErrorCode, kerr.GroupIDNotFound)
}

func TestShareAlterationsAreBoundedByMemory(t *testing.T) {
	w, store := shareWorld(t, func(c *Config) { c.MaxRecord = 1000 })
	w.topic("u", 1000)
	many := make([]int32, 1000)
	for i := range many {
		many[i] = int32(i)
	}
	is(t, w.alter(alterOf("g", []string{"u"}, many, 5)).ErrorCode, kerr.InvalidRequest)
	ticket := w.send(request(alterOf("g", []string{"u"}, many[:100], 5)))
	store.rest()
	is(t, answer[*kmsg.AlterShareGroupOffsetsResponse](w, ticket).ErrorCode, nil)
	if n := len(store.states); n != 100 {
		t.Errorf("%d states", n)
	}
}
