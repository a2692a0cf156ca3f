package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
)

// byName and byID are entries of a DeleteTopics request.
func byName(name string) kmsg.DeleteTopicsRequestTopic {
	return kmsg.DeleteTopicsRequestTopic{Topic: &name}
}

func byID(id [16]byte) kmsg.DeleteTopicsRequestTopic {
	return kmsg.DeleteTopicsRequestTopic{TopicID: id}
}

func deleteRequest(version int16, topics ...kmsg.DeleteTopicsRequestTopic) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 120_000
	for _, t := range topics {
		if version >= 6 {
			req.Topics = append(req.Topics, t)
		} else {
			req.TopicNames = append(req.TopicNames, *t.Topic)
		}
	}
	return req
}

// deletions returns the entries of an answer as text.
func deletions(resp *kmsg.DeleteTopicsResponse) (list []string) {
	for _, out := range resp.Topics {
		name := "null"
		if out.Topic != nil {
			name = *out.Topic
		}
		list = append(list, name+" "+said(out.ErrorCode, out.ErrorMessage))
	}
	return list
}

func TestADeletedTopicIsGoneWhenTheAnswerComes(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	for v := int16(1); v <= 6; v++ {
		name := fmt.Sprint("t", v)
		id := n.topic(t, name, 2)
		resp := ask[*kmsg.DeleteTopicsResponse](t, w, v, deleteRequest(v, byName(name)))
		if got := deletions(resp); len(got) != 1 || got[0] != name+" ok" || v == 6 && resp.Topics[0].TopicID != id {
			t.Errorf("version %d: %v %x", v, got, resp.Topics)
		}
		if n.image().Topic(name) != nil || n.image().TopicByID(id) != nil {
			t.Errorf("version %d: the topic is still there", v)
		}
		if _, err := n.opt.Replicas.Partition(id, 0); err == nil {
			t.Errorf("version %d: its partition can still be used", v)
		}
	}
	id := n.topic(t, "by-id", 1)
	if got := deletions(ask[*kmsg.DeleteTopicsResponse](t, w, 6, deleteRequest(6, byID(id)))); got[0] != "by-id ok" {
		t.Errorf("%v", got)
	}
	if again := n.topic(t, "by-id", 1); again == id {
		t.Error("a topic got the id of a deleted one")
	}
}

func TestDeleteTopicsRefusesAsKafkaDoes(t *testing.T) {
	n := newNode(t)
	a, b := n.topic(t, "a", 1), n.topic(t, "b", 1)
	n.topic(t, "c", 1)
	unknown := metadata.NewID()
	w := n.dial(t)
	both := byName("c")
	both.TopicID = b
	resp := ask[*kmsg.DeleteTopicsResponse](t, w, 6, deleteRequest(6,
		byName("no"), byName("bad!"), byID(unknown), byID([16]byte{}), both, byName("twice"), byName("twice"), byID(b), byID(b), byID(a),
		byName("a")))
	got := deletions(resp)
	want := []string{
		"no UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition.",
		"bad! UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition.",
		"null UNKNOWN_TOPIC_ID: This server does not host this topic ID.",
		"null INVALID_REQUEST: Neither topic name nor id were specified.",
		"c INVALID_REQUEST: You may not specify both topic name and topic id.",
		"twice INVALID_REQUEST: Duplicate topic name.",
		"null INVALID_REQUEST: Duplicate topic id.",
		"a INVALID_REQUEST: The provided topic name maps to an ID that was already supplied.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if id := resp.Topics[4].TopicID; id != b {
		t.Errorf("a topic named by name and id is answered with id %x, want %x", id, b)
	}
	if id := resp.Topics[len(resp.Topics)-1].TopicID; id != a {
		t.Errorf("a topic named by name and by id is answered with id %x, want %x", id, a)
	}
	if n.image().NumTopics() != 3 {
		t.Errorf("%d topics, want a, b and c", n.image().NumTopics())
	}
	// An entry with both does not count as an entry for the id.
	got = deletions(ask[*kmsg.DeleteTopicsResponse](t, w, 6, deleteRequest(6, both, byID(b))))
	if len(got) != 2 || got[1] != "b ok" {
		t.Errorf("%q, want b to be deleted", got)
	}
	n.topic(t, "b", 1)
	got = deletions(ask[*kmsg.DeleteTopicsResponse](t, w, 6, deleteRequest(6, byName("a"), byID(a), byID(a))))
	want = []string{"a INVALID_REQUEST: The provided topic name maps to an ID that was already supplied.",
		"null INVALID_REQUEST: Duplicate topic id."}
	if diff := cmp.Diff(want, got); diff != "" || n.image().NumTopics() != 3 {
		t.Errorf("%d topics (-want +got):\n%s", n.image().NumTopics(), diff)
	}
	got = deletions(ask[*kmsg.DeleteTopicsResponse](t, w, 4, deleteRequest(4, byName("no"))))
	if diff := cmp.Diff([]string{"no UNKNOWN_TOPIC_OR_PARTITION"}, got); diff != "" { // version 5 added messages
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDeletionCanBeDisabled(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) { o.static["delete.topic.enable"] = "false" })
	id := n.topic(t, "t", 1)
	w := n.dial(t)
	for v := int16(1); v <= 6; v++ {
		want := "t TOPIC_DELETION_DISABLED"
		if v < 3 {
			want = "t INVALID_REQUEST"
		}
		if got := deletions(ask[*kmsg.DeleteTopicsResponse](t, w, v, deleteRequest(v, byName("t")))); !strings.HasPrefix(got[0], want) {
			t.Errorf("version %d: %v", v, got)
		}
	}
	if n.image().TopicByID(id) == nil {
		t.Error("the topic was deleted")
	}
}

// morePartitions returns a request for partitions; a nil assignment is null.
func morePartitions(topic string, count int32, assignment [][]int32) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 120_000
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, count
	if assignment != nil {
		t.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
	}
	for _, brokers := range assignment {
		t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: brokers})
	}
	req.Topics = append(req.Topics, t)
	return req
}

func TestPartitionsAreThereWhenTheAnswerComes(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1)
	w := n.dial(t)
	for v := range int16(4) {
		count := 3 + 2*int32(v)
		assignment := [][]int32(nil)
		if v%2 == 1 {
			assignment = [][]int32{{1}, {1}}
		}
		out := ask[*kmsg.CreatePartitionsResponse](t, w, v, morePartitions("t", count, assignment)).Topics[0]
		if got := said(out.ErrorCode, out.ErrorMessage); got != "ok" || out.Topic != "t" {
			t.Errorf("version %d: %s %s", v, out.Topic, got)
		}
		n.mustHave(t, "t", count)
	}
}

func TestCreatePartitionsRefusesAsKafkaDoes(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 3)
	w := n.dial(t)
	for _, c := range []struct {
		req  *kmsg.CreatePartitionsRequest
		want string
	}{
		{morePartitions("t", 2, nil), "INVALID_PARTITIONS: The topic t currently has 3 partition(s); 2 would not be an increase."},
		{morePartitions("t", 3, nil), "INVALID_PARTITIONS: Topic already has 3 partition(s)."},
		{morePartitions("t", -4, nil), "INVALID_PARTITIONS: The topic t currently has 3 partition(s); -4 would not be an increase."},
		{morePartitions("no", 4, nil), "UNKNOWN_TOPIC_OR_PARTITION: The topic 'no' does not exist."},
		{morePartitions("t", 4, [][]int32{}),
			"INVALID_REPLICA_ASSIGNMENT: Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified."},
		{morePartitions("t", 5, [][]int32{{1}}),
			"INVALID_REPLICA_ASSIGNMENT: Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."},
		{morePartitions("t", 4, [][]int32{{9}}),
			"INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 9, but no such broker is registered."},
	} {
		out := ask[*kmsg.CreatePartitionsResponse](t, w, 3, c.req).Topics[0]
		if got := said(out.ErrorCode, out.ErrorMessage); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	twice := morePartitions("t", 4, nil)
	twice.Topics = append(twice.Topics, twice.Topics[0])
	resp := ask[*kmsg.CreatePartitionsResponse](t, w, 3, twice)
	if len(resp.Topics) != 1 || said(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage) != "INVALID_REQUEST: Duplicate topic name." {
		t.Errorf("%+v", resp.Topics)
	}
	n.mustHave(t, "t", 3)
}
