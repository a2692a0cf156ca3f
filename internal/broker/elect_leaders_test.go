package broker

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// elected returns the answers of an election, and the top-level code.
func elected(t *testing.T, w *wire, version int16, kind int8, topics []kmsg.ElectLeadersRequestTopic) (list []string) {
	t.Helper()
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType, req.Topics = kind, topics
	resp := ask[*kmsg.ElectLeadersResponse](t, w, version, req)
	if resp.ErrorCode != 0 {
		list = append(list, said(resp.ErrorCode, nil))
	}
	for _, topic := range resp.Topics {
		list = append(list, topic.Topic)
		for _, p := range topic.Partitions {
			list = append(list, fmt.Sprintf("%d %s", p.Partition, said(p.ErrorCode, p.ErrorMessage)))
		}
	}
	return list
}

// The answers are those of a single-node Apache Kafka 4.3.1.
func TestNoLeaderHasToBeElected(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 2)
	n.topic(t, "u", 1)
	w := n.dial(t)
	some := func(name string, partitions ...int32) []kmsg.ElectLeadersRequestTopic {
		return []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: partitions}}
	}
	const notNeeded = "ELECTION_NOT_NEEDED: Leader election not needed for topic partition."
	for _, c := range []struct {
		kind   int8
		topics []kmsg.ElectLeadersRequestTopic
		want   []string
	}{
		{0, some("t", 0), []string{"t", "0 " + notNeeded}},
		{0, some("t", 1, 7, 0, 0), []string{"t", "1 " + notNeeded, "7 UNKNOWN_TOPIC_OR_PARTITION: No such partition as t-7",
			"0 " + notNeeded, "0 " + notNeeded}},
		{1, some("t", 0, -1), []string{"t", "0 " + notNeeded, "-1 UNKNOWN_TOPIC_OR_PARTITION: No such partition as t--1"}},
		{0, some("no", 0), []string{"no", "0 UNKNOWN_TOPIC_OR_PARTITION: No such topic as no"}},
		{2, some("t", 0), []string{"INVALID_REQUEST", "t", "0 INVALID_REQUEST: Unknown election type 2"}},
		{-1, some("t", 0), []string{"INVALID_REQUEST", "t", "0 INVALID_REQUEST: Unknown election type -1"}},
		{0, nil, []string{"t", "u"}},
		{1, nil, []string{"t", "u"}},
		{0, some("t"), []string{"t"}},
		{0, []kmsg.ElectLeadersRequestTopic{}, nil},
	} {
		for version := int16(1); version <= 2; version++ {
			if diff := cmp.Diff(c.want, elected(t, w, version, c.kind, c.topics)); diff != "" {
				t.Errorf("version %d, type %d, %v (-want +got):\n%s", version, c.kind, c.topics, diff)
			}
		}
	}
	if diff := cmp.Diff([]string{"t", "0 " + notNeeded}, elected(t, w, 0, 1, some("t", 0))); diff != "" {
		t.Errorf("version 0 knows one type (-want +got):\n%s", diff)
	}
}
