package broker

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// deleting returns a request to delete records of one topic; args alternate partition and offset.
func deleting(topic string, ends ...int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 120_000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	for i := 0; i < len(ends); i += 2 {
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = int32(ends[i]), ends[i+1]
		rt.Partitions = append(rt.Partitions, p)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// lows returns short answers: topic-partition low, or its error.
func lows(resp *kmsg.DeleteRecordsResponse) (list []string) {
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			text := fmt.Sprintf("%s-%d %d", topic.Topic, p.Partition, p.LowWatermark)
			if p.ErrorCode != 0 {
				text += " " + kerr.TypedErrorForCode(p.ErrorCode).Message
			}
			list = append(list, text)
		}
	}
	return list
}

// The answers are those of an Apache Kafka 4.3.1.
func TestDeleteRecordsAnswersAsKafkaDoes(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 2)
	n.topic(t, "both", 1, "cleanup.policy", "compact,delete")
	n.topic(t, "none", 1, "cleanup.policy", "")
	n.topic(t, "compacted", 1, "cleanup.policy", "compact")
	n.topic(t, "__transaction_state", 1)
	n.topic(t, "__share_group_state", 1, "cleanup.policy", "delete")
	n.put(t, "t", 10, "v")
	n.put(t, "none", 2, "v")
	w := n.dial(t)
	for i, c := range []struct {
		req  *kmsg.DeleteRecordsRequest
		want []string
	}{
		{deleting("t", 0, 5), []string{"t-0 5"}},
		{deleting("t", 0, 3), []string{"t-0 5"}},
		{deleting("t", 0, 0), []string{"t-0 5"}},
		{deleting("t", 0, 11), []string{"t-0 -1 OFFSET_OUT_OF_RANGE"}},
		{deleting("t", 0, -2), []string{"t-0 -1 OFFSET_OUT_OF_RANGE"}},
		{deleting("t", 0, 6, 0, 7), []string{"t-0 7"}},
		{deleting("t", 0, -1), []string{"t-0 10"}},
		{deleting("t", 0, 10), []string{"t-0 10"}},
		{deleting("t", 1, -1, 7, 0), []string{"t-1 0", "t-7 -1 UNKNOWN_TOPIC_OR_PARTITION"}},
		{deleting("nope", 0, 0), []string{"nope-0 -1 UNKNOWN_TOPIC_OR_PARTITION"}},
		{deleting("compacted", 0, 0), []string{"compacted-0 -1 POLICY_VIOLATION"}},
		{deleting("both", 0, 0), []string{"both-0 0"}},
		{deleting("none", 0, 1), []string{"none-0 1"}},
		{deleting("__transaction_state", 0, 0), []string{"__transaction_state-0 -1 INVALID_TOPIC_EXCEPTION"}},
		{deleting("__share_group_state", 0, 0), []string{"__share_group_state-0 -1 INVALID_TOPIC_EXCEPTION"}},
		{deleting("t"), nil},
		{kmsg.NewPtrDeleteRecordsRequest(), nil},
	} {
		version := int16(i % 3)
		if diff := cmp.Diff(c.want, lows(ask[*kmsg.DeleteRecordsResponse](t, w, version, c.req))); diff != "" {
			t.Errorf("%d, version %d: (-want +got):\n%s", i, version, diff)
		}
	}
	fetched := ask[*kmsg.FetchResponse](t, w, 12, fetchRequest(9, named("t", [16]byte{})))
	if p := fetched.Topics[0].Partitions[0]; p.ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("a record that was deleted is read: %+v", p)
	}
	if got := produced(t, w, 9, produceRequest("t", [16]byte{}, -1, plain(t, "next"))); got.ErrorCode != 0 || got.BaseOffset != 10 ||
		got.LogStartOffset != 10 {
		t.Errorf("the next record: %+v", got)
	}
}

// After records were deleted, lookups by time consider only the remaining ones.
func TestListOffsetsAfterRecordsWereDeleted(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1)
	w := n.dial(t)
	for ts := int64(1000); ts < 1010; ts++ {
		if p := produced(t, w, 9, produceRequest("t", [16]byte{}, -1, batchOf(t, record.BatchOptions{}, ts, "x"))); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
	}
	look := func(want map[int64]string) {
		t.Helper()
		for ts, answer := range want {
			p := ask[*kmsg.ListOffsetsResponse](t, w, 11, listRequest("t", 0, ts)).Topics[0].Partitions[0]
			if got := fmt.Sprintf("%d@%d in %d", p.Offset, p.Timestamp, p.LeaderEpoch); p.ErrorCode != 0 || got != answer {
				t.Errorf("timestamp %d: %s (code %d), want %s", ts, got, p.ErrorCode, answer)
			}
		}
	}
	const none = "-1@-1 in -1"
	ask[*kmsg.DeleteRecordsResponse](t, w, 2, deleting("t", 0, 5))
	look(map[int64]string{-1: "10@-1 in 0", -2: "5@-1 in 0", -3: "9@1009 in 0", -4: "5@-1 in 0", -5: none, -6: none,
		0: "5@1005 in 0", 1000: "5@1005 in 0", 1005: "5@1005 in 0", 1009: "9@1009 in 0", 1010: none})
	ask[*kmsg.DeleteRecordsResponse](t, w, 2, deleting("t", 0, -1))
	look(map[int64]string{-1: "10@-1 in 0", -2: "10@-1 in 0", -3: none, -4: "10@-1 in 0", -5: none, -6: none, 0: none, 1009: none})
}

func TestDeletedRecordsAreGoneAfterARestart(t *testing.T) {
	fs := vfs.Memory()
	t.Run("before", func(t *testing.T) {
		n := newNode(t, func(o *nodeOptions) { o.fs = fs })
		n.topic(t, "t", 1)
		n.put(t, "t", 10, "v")
		if got := lows(ask[*kmsg.DeleteRecordsResponse](t, n.dial(t), 2, deleting("t", 0, 4))); got[0] != "t-0 4" {
			t.Fatal(got)
		}
	})
	n := newNode(t, func(o *nodeOptions) { o.fs = fs })
	for ts, want := range map[int64]int64{-2: 4, -1: 10} {
		if p := ask[*kmsg.ListOffsetsResponse](t, n.dial(t), 7, listRequest("t", 0, ts)).Topics[0].Partitions[0]; p.Offset != want {
			t.Errorf("timestamp %d: %d, want %d", ts, p.Offset, want)
		}
	}
}
