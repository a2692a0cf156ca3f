package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describe requests a page; from is where it starts, "" for the beginning.
func describe(limit int32, from string, partition int32, topics ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = limit
	for _, name := range topics {
		req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
	}
	if from != "" {
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: from, Partition: partition}
	}
	return req
}

// pageText returns a page in one line: topics with their partitions or errors, and where the next
// page starts.
func pageText(resp *kmsg.DescribeTopicPartitionsResponse) string {
	var list []string
	for _, t := range resp.Topics {
		text := *t.Topic
		if t.ErrorCode != 0 {
			text += " " + kerr.TypedErrorForCode(t.ErrorCode).Message
		}
		for _, p := range t.Partitions {
			text += fmt.Sprint(" ", p.Partition)
		}
		list = append(list, text)
	}
	text := strings.Join(list, ", ")
	if c := resp.NextCursor; c != nil {
		text += fmt.Sprintf(" > %s-%d", c.Topic, c.Partition)
	}
	return text
}

func TestPagesOfTopicPartitions(t *testing.T) {
	n := newNode(t)
	for _, name := range []string{"b", "d", "a"} {
		n.topic(t, name, 3)
	}
	w := n.dial(t)
	for _, c := range []struct {
		req  *kmsg.DescribeTopicPartitionsRequest
		want string
	}{
		{describe(100, "", 0), "a 0 1 2, b 0 1 2, d 0 1 2"},
		{describe(1, "", 0), "a 0 > a-1"},
		{describe(3, "", 0), "a 0 1 2 > b-0"}, // full at the end of a topic
		{describe(4, "", 0), "a 0 1 2, b 0 > b-1"},
		{describe(9, "", 0), "a 0 1 2, b 0 1 2, d 0 1 2"},
		{describe(4, "a", 1), "a 1 2, b 0 1 > b-2"},
		{describe(100, "c", 2), "d 0 1 2"}, // the cursor's topic was deleted: the next topic from its first partition
		{describe(100, "d", 3), "d"},
		{describe(100, "e", 0), ""},
		{describe(0, "", 0), "a 0 > a-1"},
		{describe(-5, "b", 2), "b 2 > d-0"},
		{describe(100, "", 0, "d", "no", "bad!", "a", "d"),
			"a 0 1 2, bad! INVALID_TOPIC_EXCEPTION, d 0 1 2, no UNKNOWN_TOPIC_OR_PARTITION"},
		{describe(3, "", 0, "d", "no"), "d 0 1 2 > no-0"},
		{describe(100, "d", 2, "a", "d", "z"), "d 2, z UNKNOWN_TOPIC_OR_PARTITION"},
		{describe(100, "c", 1, "a", "c", "d"), "c UNKNOWN_TOPIC_OR_PARTITION, d 0 1 2"}, // deleted, but still requested
		{describe(100, "c", 1, "a", "d"), "a INVALID_REQUEST, d INVALID_REQUEST"},
		{describe(100, "d", -1, "d"), "d INVALID_REQUEST"},
	} {
		if got := pageText(ask[*kmsg.DescribeTopicPartitionsResponse](t, w, 0, c.req)); got != c.want {
			t.Errorf("limit %d, cursor %+v, topics %v:\n%s\nwant %s", c.req.ResponsePartitionLimit, c.req.Cursor, c.req.Topics, got, c.want)
		}
	}
}

func TestAPageIsBoundedByTheBroker(t *testing.T) {
	n := newNode(t)
	for i := range 3 {
		n.topic(t, fmt.Sprint("t", i), 1000)
	}
	w := n.dial(t)
	resp := ask[*kmsg.DescribeTopicPartitionsResponse](t, w, 0, describe(1<<30, "", 0))
	if len(resp.Topics) != 2 || resp.NextCursor == nil || resp.NextCursor.Topic != "t2" || resp.NextCursor.Partition != 0 {
		t.Errorf("%d topics, then %+v", len(resp.Topics), resp.NextCursor)
	}
}

func TestATopicPartitionIsDescribedInFull(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "__consumer_offsets", 1)
	w := n.dial(t)
	got := ask[*kmsg.DescribeTopicPartitionsResponse](t, w, 0, describe(10, "", 0)).Topics[0]
	if got.TopicID != id || !got.IsInternal || got.AuthorizedOperations != 3576 {
		t.Errorf("%+v", got)
	}
	p := got.Partitions[0]
	if p.ErrorCode != 0 || p.LeaderID != 1 || p.LeaderEpoch != 0 || fmt.Sprint(p.Replicas, p.ISR, p.OfflineReplicas) != "[1] [1] []" ||
		p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil {
		t.Errorf("%+v", p)
	}
}
