package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// fillShareState is fillRequest for the requests about states of share groups.
func fillShareState(r kmsg.Request, id [16]byte) {
	switch r := r.(type) {
	case *kmsg.InitializeShareGroupStateRequest:
		*r = *initializeShare(id, 1, 0, 0, 100)
	case *kmsg.ReadShareGroupStateRequest:
		*r = *readShare(id, -1, 0, 100)
	case *kmsg.WriteShareGroupStateRequest:
		v := r.Version
		*r = *writeShare(id, 1, 0, 0, 0, [2]int64{3, 4})
		r.Version = v
	case *kmsg.DeleteShareGroupStateRequest:
		r.GroupID, r.Topics = "g", []kmsg.DeleteShareGroupStateRequestTopic{{TopicID: id,
			Partitions: []kmsg.DeleteShareGroupStateRequestTopicPartition{{Partition: 1}, {Partition: 100}}}}
	case *kmsg.ReadShareGroupStateSummaryRequest:
		v := r.Version
		*r = *summarizeShare(id, -1, 0, 100)
		r.Version = v
	default:
		fillShareOffsets(r)
	}
}

func initializeShare(id [16]byte, epoch int32, start int64, partitions ...int32) *kmsg.InitializeShareGroupStateRequest {
	req := kmsg.NewPtrInitializeShareGroupStateRequest()
	t := kmsg.InitializeShareGroupStateRequestTopic{TopicID: id}
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.InitializeShareGroupStateRequestTopicPartition{Partition: p, StateEpoch: epoch,
			StartOffset: start})
	}
	req.GroupID, req.Topics = "g", []kmsg.InitializeShareGroupStateRequestTopic{t}
	return req
}

func readShare(id [16]byte, epoch int32, partitions ...int32) *kmsg.ReadShareGroupStateRequest {
	req := kmsg.NewPtrReadShareGroupStateRequest()
	t := kmsg.ReadShareGroupStateRequestTopic{TopicID: id}
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.ReadShareGroupStateRequestTopicPartition{Partition: p, LeaderEpoch: epoch})
	}
	req.GroupID, req.Topics = "g", []kmsg.ReadShareGroupStateRequestTopic{t}
	return req
}

// writeShare accepts a range of offsets.
func writeShare(id [16]byte, epoch, leader int32, start int64, partition int32, accepted [2]int64) *kmsg.WriteShareGroupStateRequest {
	req := kmsg.NewPtrWriteShareGroupStateRequest()
	p := kmsg.NewWriteShareGroupStateRequestTopicPartition()
	p.Partition, p.StateEpoch, p.LeaderEpoch, p.StartOffset = partition, epoch, leader, start
	p.StateBatches = []kmsg.WriteShareGroupStateRequestTopicPartitionStateBatch{{FirstOffset: accepted[0], LastOffset: accepted[1],
		DeliveryState: 2, DeliveryCount: 1}}
	req.GroupID, req.Topics = "g", []kmsg.WriteShareGroupStateRequestTopic{{TopicID: id,
		Partitions: []kmsg.WriteShareGroupStateRequestTopicPartition{p}}}
	return req
}

func summarizeShare(id [16]byte, epoch int32, partitions ...int32) *kmsg.ReadShareGroupStateSummaryRequest {
	req := kmsg.NewPtrReadShareGroupStateSummaryRequest()
	t := kmsg.ReadShareGroupStateSummaryRequestTopic{TopicID: id}
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.ReadShareGroupStateSummaryRequestTopicPartition{Partition: p, LeaderEpoch: epoch})
	}
	req.GroupID, req.Topics = "g", []kmsg.ReadShareGroupStateSummaryRequestTopic{t}
	return req
}

// findShare asks for the coordinators of share partitions.
func findShare(keys ...string) *kmsg.FindCoordinatorRequest {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKeys = shareCoordinator, keys
	return req
}

// coordinatesShares waits until this broker coordinates the share partitions of a topic.
func (n *node) coordinatesShares(t testing.TB, id [16]byte) {
	t.Helper()
	w := n.dial(t)
	eventually(t, "share groups have a coordinator", func() bool {
		for p := range int32(4) {
			k := format.Key{Group: "g", Topic: id, Partition: p}
			found := ask[*kmsg.FindCoordinatorResponse](t, w, 6, findShare(k.Coordinator()))
			listed := ask[*kmsg.ReadShareGroupStateSummaryResponse](t, w, 1, summarizeShare(id, -1, p)).Topics[0].Partitions[0]
			if found.Coordinators[0].ErrorCode != 0 || listed.ErrorCode != kerr.InvalidRequest.Code && p < 2 {
				return false
			}
		}
		return true
	})
}

// shareText shows the partitions of an answer.
func shareText(resp kmsg.Response) string {
	var b strings.Builder
	add := func(p int32, code int16, values ...any) {
		if err := kerr.TypedErrorForCode(code); err != nil {
			fmt.Fprintf(&b, "[%d %s]", p, err.Message)
			return
		}
		fmt.Fprintf(&b, "[%d%s]", p, strings.TrimRight(" "+fmt.Sprintln(values...), "\n "))
	}
	switch resp := resp.(type) {
	case *kmsg.InitializeShareGroupStateResponse:
		for _, p := range resp.Topics[0].Partitions {
			add(p.Partition, p.ErrorCode)
		}
	case *kmsg.WriteShareGroupStateResponse:
		for _, p := range resp.Topics[0].Partitions {
			add(p.Partition, p.ErrorCode)
		}
	case *kmsg.DeleteShareGroupStateResponse:
		for _, p := range resp.Topics[0].Partitions {
			add(p.Partition, p.ErrorCode)
		}
	case *kmsg.ReadShareGroupStateResponse:
		for _, p := range resp.Topics[0].Partitions {
			add(p.Partition, p.ErrorCode, p.StateEpoch, p.StartOffset, p.StateBatches)
		}
	case *kmsg.ReadShareGroupStateSummaryResponse:
		for _, p := range resp.Topics[0].Partitions {
			add(p.Partition, p.ErrorCode, p.StateEpoch, p.LeaderEpoch, p.StartOffset, p.DeliveryCompleteCount)
		}
	}
	return b.String()
}

// A tool sees and changes states with Kafka's requests.
func TestShareGroupStatesOfTools(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 2)
	w := n.dial(t)
	if got := shareText(ask[*kmsg.DeleteShareGroupStateResponse](t, w, 0, deleteShare(id, 0))); got != "[0 NOT_COORDINATOR]" {
		t.Errorf("before there is a topic: %s", got)
	}
	if n.image().Topic(service.SharesTopic) != nil {
		t.Error("the topic exists")
	}
	n.coordinatesShares(t, id)
	leader := n.image().TopicByID(id).Partitions.At(0).LeaderEpoch
	raise := func() {
		raises := map[metadata.TopicPartition]metadata.Raise{{Topic: id}: {From: leader, Seen: -1}}
		revision, err := n.control.RaiseEpochs(t.Context(), raises)
		must(t, err)
		must(t, n.applier.WaitFor(t.Context(), revision))
	}
	first, again := deleteShare(id, 0, 1), deleteShare(id, 0)
	for _, c := range []struct {
		what string
		req  kmsg.Request
		want string
	}{
		{"a state begins", initializeShare(id, 3, 5, 0, 2), "[0][2 UNKNOWN_TOPIC_OR_PARTITION]"},
		{"its start is open", initializeShare(id, 3, -1, 1), "[1]"},
		{"a repetition", initializeShare(id, 3, 5, 0), "[0]"},
		{"a former epoch", initializeShare(id, 2, 5, 0), "[0 FENCED_STATE_EPOCH]"},
		{"a read", readShare(id, -1, 0, 1, 2), "[0 3 5 []][1 3 -1 []][2 UNKNOWN_TOPIC_OR_PARTITION]"},
		{"a write before a leader", writeShare(id, 3, leader, 5, 0, [2]int64{6, 7}), "[0 FENCED_LEADER_EPOCH]"},
		{"a leader's read", readShare(id, leader, 0), "[0 3 5 []]"},
		{"a leader's read without a start", readShare(id, leader, 1), "[1 3 -1 []]"},
		{"a write", writeShare(id, 3, leader, 5, 0, [2]int64{6, 7}), "[0]"},
		{"a write to an unknown state", writeShare(id, 3, leader, 5, 3, [2]int64{6, 7}), "[3 UNKNOWN_TOPIC_OR_PARTITION]"},
		{"a write of another epoch", writeShare(id, 4, leader, 5, 0, [2]int64{8, 8}), "[0 FENCED_STATE_EPOCH]"},
		{"a write that leaves all open", writeShare(id, -1, -1, -1, 0, [2]int64{9, 9}), "[0]"},
		{"a write that moves the start back", writeShare(id, 3, leader, 4, 0, [2]int64{9, 9}), "[0 FENCED_STATE_EPOCH]"},
		{"a malformed write", writeShare(id, 3, leader, 5, 0, [2]int64{9, 8}), "[0 INVALID_REQUEST]"},
		{"a read of marks", readShare(id, -1, 0), "[0 3 5 [{6 7 2 1 {map[]}} {9 9 2 1 {map[]}}]]"},
		{"a read of a leader to come", readShare(id, leader+1, 0), "[0 UNKNOWN_LEADER_EPOCH]"},
		{"its write", writeShare(id, 3, leader+1, 5, 0, [2]int64{10, 10}), "[0 FENCED_LEADER_EPOCH]"},
		{"a later leader's read", readShare(id, leader+1, 0), "[0 3 5 [{6 7 2 1 {map[]}} {9 9 2 1 {map[]}}]]"},
		{"a former leader's read", readShare(id, leader, 0), "[0 FENCED_LEADER_EPOCH]"},
		{"a former leader's write", writeShare(id, 3, leader, 5, 0, [2]int64{10, 10}), "[0 FENCED_LEADER_EPOCH]"},
		{"summaries", summarizeShare(id, -1, 0, 1), fmt.Sprintf("[0 3 %d 5 3][1 3 -1 -1 0]", leader+1)},
		{"a former leader's summary", summarizeShare(id, leader, 0), "[0 FENCED_LEADER_EPOCH]"},
		{"an end", first, "[0][1]"},
		{"the same again", again, "[0]"},
		{"a read afterwards", readShare(id, -1, 0), "[0 INVALID_REQUEST]"},
		{"a summary afterwards", summarizeShare(id, -1, 0), "[0 INVALID_REQUEST]"},
	} {
		if strings.HasPrefix(c.what, "a later leader") {
			raise()
		}
		c.req.SetVersion(c.req.MaxVersion())
		must(t, w.send(c.req))
		resp, err := w.receive(c.req)
		must(t, err)
		if got := shareText(resp); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

func deleteShare(id [16]byte, partitions ...int32) *kmsg.DeleteShareGroupStateRequest {
	req := kmsg.NewPtrDeleteShareGroupStateRequest()
	t := kmsg.DeleteShareGroupStateRequestTopic{TopicID: id}
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.DeleteShareGroupStateRequestTopicPartition{Partition: p})
	}
	req.GroupID, req.Topics = "g", []kmsg.DeleteShareGroupStateRequestTopic{t}
	return req
}

// silent are shards that answer nothing.
type silent struct{ *service.Shares }

func (silent) SubmitTo(int32, any, func(any, error)) {}

// A request that the coordinator does not answer in share.coordinator.write.timeout.ms is answered
// with an error at which a tool repeats it.
func TestShareGroupStatesDoNotWaitForever(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) { o.static["share.coordinator.write.timeout.ms"] = "1" })
	keys := []format.Key{{Group: "g", Topic: n.topic(t, "t", 2)}, {Group: "h"}}
	n.coordinatesShares(t, keys[0].Topic)
	ctx, cancel := n.sharesTime(t.Context())
	defer cancel()
	peek := func(at []int) any { return sharestate.Peek(pick(keys, at)) }
	got := askShards(ctx, n.Handler, silent{n.shares}, keys, peek, failedPeek)
	if len(got) != 2 || got[0].Err != kerr.RequestTimedOut || got[1].Err != kerr.RequestTimedOut {
		t.Errorf("%v", got)
	}
}

// FindCoordinator finds the coordinator of share partitions by Kafka's keys, and refuses others.
func TestFindTheCoordinatorOfASharePartition(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 2)
	n.coordinatesShares(t, id)
	w := n.dial(t)
	good := "a:b:" + metadata.FormatID(id) + ":1"
	keys := []string{good, "g", "g:x:1", ":" + metadata.FormatID(id) + ":1", "g:" + metadata.FormatID(id) + ":01",
		"g:" + metadata.FormatID(id) + ":-1", ""}
	for i, c := range ask[*kmsg.FindCoordinatorResponse](t, w, 6, findShare(keys...)).Coordinators {
		want := kerr.InvalidRequest.Code
		if i == 0 {
			want = 0
		}
		if c.Key != keys[i] || c.ErrorCode != want || (c.NodeID == 1) != (want == 0) {
			t.Errorf("%+v", c)
		}
	}
	if got := ask[*kmsg.FindCoordinatorResponse](t, w, 5, findShare(good)); got.Coordinators[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("%+v", got)
	}
}

// States are for brokers and administrators.
func TestShareGroupStatesNeedClusterAction(t *testing.T) {
	g := newGuarded(t, quick)
	id := g.topic(t, "t", 2)
	w := g.dial(t)
	g.allow(topicRight(acl.Read, "t"))
	for _, a := range apis() {
		if a.Key < int16(kmsg.InitializeShareGroupState) || a.Key > int16(kmsg.ReadShareGroupStateSummary) {
			continue
		}
		req := kmsg.RequestForKey(a.Key)
		fillShareState(req, id)
		must(t, w.send(req))
		resp, err := w.receive(req)
		must(t, err)
		for _, code := range codesIn(resp) {
			if code != kerr.ClusterAuthorizationFailed.Code {
				t.Errorf("%s: %d", a.Name(), code)
			}
		}
		if len(codesIn(resp)) == 0 {
			t.Errorf("%s is answered", a.Name())
		}
	}
}
