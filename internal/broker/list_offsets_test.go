package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/replicatest"
)

func listRequest(topic string, partition int32, ts int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, ts
	rt.Partitions = append(rt.Partitions, p)
	req.Topics = append(req.Topics, rt)
	return req
}

func TestListOffsetsAnswersAsKafkaDoes(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1)
	n.topic(t, "empty", 1)
	w := n.dial(t)
	for ts := int64(1000); ts < 1003; ts++ {
		b := batchOf(t, record.BatchOptions{}, ts, "x")
		if p := produced(t, w, 9, produceRequest("t", [16]byte{}, -1, b)); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
	}
	type answer struct {
		code   int16
		offset int64
		ts     int64
		epoch  int32
	}
	unsupported := answer{kerr.UnsupportedVersion.Code, -1, -1, -1}
	none := answer{0, -1, -1, -1}
	for _, c := range []struct { // the answers of a Kafka 4.3
		topic   string
		version int16
		ts      int64
		want    answer
	}{
		{"t", 1, -1, answer{0, 3, -1, -1}}, {"t", 3, -2, answer{0, 0, -1, -1}}, {"t", 3, -3, unsupported}, {"t", 6, -3, unsupported},
		{"t", 3, 0, answer{0, 0, 1000, -1}}, {"t", 3, 1001, answer{0, 1, 1001, -1}}, {"t", 3, 5000, none},
		{"t", 11, -1, answer{0, 3, -1, 0}}, {"t", 11, -2, answer{0, 0, -1, 0}}, {"t", 7, -3, answer{0, 2, 1002, 0}},
		{"t", 7, -4, unsupported}, {"t", 8, -4, answer{0, 0, -1, 0}}, {"t", 8, -5, unsupported}, {"t", 9, -5, none},
		{"t", 10, -6, unsupported}, {"t", 11, -6, none}, {"t", 11, -7, unsupported}, {"t", 11, 1001, answer{0, 1, 1001, 0}},
		{"t", 4, 5000, none},
		{"empty", 11, -1, answer{0, 0, -1, 0}}, {"empty", 11, -2, answer{0, 0, -1, 0}}, {"empty", 11, -3, none}, {"empty", 11, 0, none},
		{"x", 11, -1, answer{kerr.UnknownTopicOrPartition.Code, -1, -1, -1}},
	} {
		resp := ask[*kmsg.ListOffsetsResponse](t, w, c.version, listRequest(c.topic, 0, c.ts))
		p := resp.Topics[0].Partitions[0]
		if got := (answer{p.ErrorCode, p.Offset, p.Timestamp, p.LeaderEpoch}); got != c.want || resp.Topics[0].Topic != c.topic {
			t.Errorf("%s version %d timestamp %d: %+v, want %+v", c.topic, c.version, c.ts, got, c.want)
		}
	}
}

// As in Kafka a partition that is named repeatedly is refused and answered once.
func TestListOffsetsOfOnePartitionTwice(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 2)
	req := listRequest("t", 0, -1)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, listRequest("t", 0, -2).Topics[0].Partitions...)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, listRequest("t", 1, -2).Topics[0].Partitions...)
	req.Topics = append(req.Topics, listRequest("t", 0, -1).Topics...)
	resp := ask[*kmsg.ListOffsetsResponse](t, n.dial(t), 7, req)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 {
		t.Fatalf("answered %+v, want each of two partitions once", resp.Topics)
	}
	for i, want := range []int16{kerr.InvalidRequest.Code, 0} {
		if p := resp.Topics[0].Partitions[i]; p.ErrorCode != want || p.Partition != int32(i) {
			t.Errorf("partition %d: %d, want %d", p.Partition, p.ErrorCode, want)
		}
	}
}

func TestLatestIsNotAvailableBeforeTheEpochsStartCounts(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	f := n.follow(t, id)
	w := n.dial(t)
	produced(t, w, 13, produceRequest("", id, 1, plain(t, "a")))
	f.p.SetRole(replicatest.Role(f.p, 1, f.p.LeaderEpoch()+1, []int32{1, 2}, []int32{1, 2})) // begins at 1, high watermark 0
	for version, want := range map[int16]*kerr.Error{4: kerr.LeaderNotAvailable, 5: kerr.OffsetNotAvailable, 11: kerr.OffsetNotAvailable} {
		if got := ask[*kmsg.ListOffsetsResponse](t, w, version,
			listRequest("t", 0, -1)).Topics[0].Partitions[0].ErrorCode; got != want.Code {
			t.Errorf("version %d: %v, want %v", version, kerr.ErrorForCode(got), want)
		}
	}
	if p := ask[*kmsg.ListOffsetsResponse](t, w, 11, listRequest("t", 0, -2)).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Offset != 0 {
		t.Errorf("the log's start is known: %+v", p)
	}
	f.acknowledge(1)
	latest := func() kmsg.ListOffsetsResponseTopicPartition {
		return ask[*kmsg.ListOffsetsResponse](t, w, 11, listRequest("t", 0, -1)).Topics[0].Partitions[0]
	}
	eventually(t, "the epoch's start counts", func() bool { return latest().ErrorCode != kerr.OffsetNotAvailable.Code })
	if p := latest(); p.ErrorCode != 0 || p.Offset != 1 || p.LeaderEpoch != 2 {
		t.Errorf("once it counts: %+v", p)
	}
}

func TestListOffsetsChecksTheEpoch(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	n.follow(t, id) // epoch 1
	w := n.dial(t)
	for epoch, want := range map[int32]*kerr.Error{0: kerr.FencedLeaderEpoch, 1: nil, 2: kerr.UnknownLeaderEpoch} {
		req := listRequest("t", 0, -2)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		if got := ask[*kmsg.ListOffsetsResponse](t, w, 4, req).Topics[0].Partitions[0].ErrorCode; got != code(orNil(want)) {
			t.Errorf("epoch %d: %v, want %v", epoch, kerr.ErrorForCode(got), want)
		}
	}
}
