package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The answers are those of a single-node Apache Kafka 4.3.1.
func TestReplicasStayWhereTheyAre(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 2)
	w := n.dial(t)
	const head = "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes "
	for _, c := range []struct {
		topic     string
		partition int32
		replicas  []int32
		want      string
	}{
		{"t", 0, []int32{1}, "ok"},
		{"t", 1, []int32{1}, "ok"},
		{"t", 0, nil, "NO_REASSIGNMENT_IN_PROGRESS: No partition reassignment is in progress."},
		{"t", 0, []int32{2}, head + "broker 2, but no such broker is registered."},
		{"t", 0, []int32{1, 2}, head + "broker 2, but no such broker is registered."},
		{"t", 0, []int32{-1}, head + "broker -1, but no such broker is registered."},
		{"t", 0, []int32{1, 1}, head + "the broker 1 more than once."},
		{"t", 0, []int32{}, head + "an empty replica list."},
		{"t", 7, []int32{1}, "UNKNOWN_TOPIC_OR_PARTITION: Unable to find partition t:7."},
		{"t", -1, nil, "UNKNOWN_TOPIC_OR_PARTITION: Unable to find partition t:-1."},
		{"no", 0, []int32{1}, "UNKNOWN_TOPIC_OR_PARTITION: Unable to find a topic named no."},
	} {
		for version := range int16(2) {
			req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			req.AllowReplicationFactorChange = version == 0
			req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: c.topic,
				Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: c.partition, Replicas: c.replicas}}}}
			resp := ask[*kmsg.AlterPartitionAssignmentsResponse](t, w, version, req)
			one := resp.Topics[0].Partitions[0]
			if got := said(one.ErrorCode, one.ErrorMessage); got != c.want || resp.ErrorCode != 0 || one.Partition != c.partition ||
				resp.AllowReplicationFactorChange != (version == 0) {
				t.Errorf("%s-%d to %v, version %d: %s\nwant %s (%+v)", c.topic, c.partition, c.replicas, version, got, c.want, resp)
			}
		}
	}
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	twice := kmsg.AlterPartitionAssignmentsRequestTopic{Topic: "t",
		Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{1}}, {Replicas: []int32{2}}}}
	req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{twice, twice}
	for i, topic := range ask[*kmsg.AlterPartitionAssignmentsResponse](t, w, 0, req).Topics {
		for k, one := range topic.Partitions {
			want := "INVALID_REQUEST: The request names partition t-0 more than once."
			if i+k == 0 {
				want = "ok"
			}
			if got := said(one.ErrorCode, one.ErrorMessage); got != want {
				t.Errorf("partition %d of topic %d: %s, want %s", k, i, got, want)
			}
		}
	}
	if got := fmt.Sprint(n.image().Topic("t").Partitions.At(0).Replicas); got != "[1]" {
		t.Errorf("replicas %s", got)
	}
}
