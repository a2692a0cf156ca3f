package broker

import (
	"bytes"
	"fmt"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

// forEachAPI sends a valid request of every API at every version, each on a new connection, and
// passes on its answer: nil if the connection was closed instead.
func (n *node) forEachAPI(t *testing.T, id [16]byte, check func(t *testing.T, a *api, req kmsg.Request, resp kmsg.Response)) {
	t.Helper()
	for _, a := range n.entries {
		if a == nil {
			continue
		}
		for v := a.Min; v <= a.Max; v++ {
			t.Run(fmt.Sprintf("%s/%d", a.Name(), v), func(t *testing.T) {
				req := kmsg.RequestForKey(a.Key)
				req.SetVersion(v)
				fillRequest(req, id)
				w := n.dial(t)
				must(t, w.send(req))
				resp, err := w.receive(req)
				must(t, err)
				check(t, a, req, resp)
				_ = w.Close()
			})
		}
	}
}

// codesIn returns the errors of an answer.
func codesIn(resp kmsg.Response) (codes []int16) {
	errorCodes(reflect.ValueOf(resp), func(code int16) {
		if code != 0 {
			codes = append(codes, code)
		}
	})
	return codes
}

// noPlace reports whether the answer to a request has no field for an error because it is empty.
func noPlace(req kmsg.Request) bool {
	switch req := req.(type) {
	case *kmsg.DescribeLogDirsRequest:
		return req.Version < 3
	case *kmsg.MetadataRequest: // for all topics, and the same below
		return req.Version < 13
	case *kmsg.DescribeTopicPartitionsRequest:
		return true
	}
	return false
}

// A refusal names every part of the request, as a successful answer does.
func TestARefusalNamesEveryPart(t *testing.T) {
	name := "t"
	for _, c := range []struct {
		req  kmsg.Request
		want int // errors below the top level
	}{
		{&kmsg.CreateTopicsRequest{Version: 7, Topics: []kmsg.CreateTopicsRequestTopic{{Topic: "a"}, {Topic: "b"}}}, 2},
		{&kmsg.DeleteTopicsRequest{Version: 6, Topics: []kmsg.DeleteTopicsRequestTopic{{Topic: &name}, {TopicID: [16]byte{1}}}}, 2},
		{&kmsg.DescribeGroupsRequest{Version: 6, Groups: []string{"a", "b", "c"}}, 3},
		{&kmsg.ListOffsetsRequest{Version: 7, Topics: []kmsg.ListOffsetsRequestTopic{
			{Topic: "a", Partitions: make([]kmsg.ListOffsetsRequestTopicPartition, 2)}}}, 2},
		{&kmsg.OffsetFetchRequest{Version: 7, Topics: []kmsg.OffsetFetchRequestTopic{{Topic: "a", Partitions: []int32{1, 2}}}}, 3},
		{&kmsg.DescribeTopicPartitionsRequest{Topics: []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "a"}}}, 1},
		{&kmsg.AlterConfigsRequest{Version: 2, Resources: []kmsg.AlterConfigsRequestResource{{ResourceType: 2, ResourceName: "a"}}}, 1},
	} {
		resp := refuseWhole(c.req, kerr.RequestTimedOut)
		if codes := codesIn(resp); len(codes) != c.want {
			t.Errorf("%d errors, want %d: %+v", len(codes), c.want, resp)
		}
		again := c.req.ResponseKind()
		again.SetVersion(c.req.GetVersion())
		if must(t, again.ReadFrom(resp.AppendTo(nil))); !bytes.Equal(again.AppendTo(nil), resp.AppendTo(nil)) {
			t.Errorf("%+v", resp)
		}
	}
	remove := kmsg.DeleteTopicsRequest{Version: 6, Topics: []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}}
	deleted := refuseWhole(&remove, kerr.NotController).(*kmsg.DeleteTopicsResponse)
	if got := deleted.Topics[0]; *got.Topic != name || got.ErrorCode != kerr.NotController.Code {
		t.Errorf("%+v", got)
	}
	groups := refuseWhole(&kmsg.DescribeGroupsRequest{Groups: []string{"g"}}, kerr.NotController).(*kmsg.DescribeGroupsResponse)
	if got := groups.Groups[0]; got.Group != "g" {
		t.Errorf("%+v", got)
	}
}

// Every answer to a client over its quota reports how long its connection is throttled.
func TestEveryAnswerReportsItsThrottleTime(t *testing.T) {
	n := newNode(t, quick, func(o *nodeOptions) {
		o.broker = func(b *Options) {
			b.Cluster, b.Quotas = &fakeCluster{}, indebted(7*time.Millisecond)
		}
		o.network = func(o *network.Options) { o.Quotas = nil } // or requests would wait, as the clock stands still
	})
	id := n.topic(t, "t", 2)
	n.coordinates(t)
	n.forEachAPI(t, id, func(t *testing.T, _ *api, req kmsg.Request, resp kmsg.Response) {
		empty := req.ResponseKind()
		empty.SetVersion(req.GetVersion())
		before := empty.AppendTo(nil)
		if set, ok := empty.(kmsg.SetThrottleResponse); ok {
			set.SetThrottle(7)
		}
		if bytes.Equal(before, empty.AppendTo(nil)) {
			return // the version has no field for it
		}
		if got, _ := resp.(kmsg.ThrottleResponse).Throttle(); got != 7 {
			t.Errorf("throttled for %d ms", got)
		}
	})
}

// If the memory for waiting requests is used up, requests that would wait are refused with a
// retriable error, and all others are answered.
func TestWaitingRequestsAreRefusedWithoutMemory(t *testing.T) {
	n := newNode(t, quick, inCluster(&fakeCluster{}))
	id := n.topic(t, "t", 2)
	n.coordinates(t)
	all := n.opt.ParkedBytes
	must(t, n.Handler.parked.Acquire(t.Context(), all))
	defer n.Handler.parked.Release(all)
	busy := []int16{kerr.NotController.Code, kerr.CoordinatorNotAvailable.Code, kerr.LeaderNotAvailable.Code, kerr.RequestTimedOut.Code,
		kerr.CoordinatorLoadInProgress.Code}
	n.forEachAPI(t, id, func(t *testing.T, a *api, req kmsg.Request, resp kmsg.Response) {
		codes := codesIn(resp)
		for _, c := range codes {
			if a.overloaded == nil && slices.Contains(busy, c) || a.overloaded != nil && c != a.overloaded.Code {
				t.Errorf("error %d: %+v", c, resp)
			}
		}
		if a.overloaded != nil && len(codes) == 0 && !noPlace(req) {
			t.Errorf("it was not refused: %+v", resp)
		}
		if e := kerr.TypedErrorForCode(orSuccess(a.overloaded)); e != nil && !e.Retriable {
			t.Errorf("%v is not retriable", e)
		}
	})
	if n.image().NumTopics() != 2 || n.Parked().Used != all {
		t.Errorf("%d topics, %+v", n.image().NumTopics(), n.Parked())
	}
}

func orSuccess(e *kerr.Error) int16 {
	if e == nil {
		return 0
	}
	return e.Code
}

// A member that waits for others is charged for its metadata until it is answered, or gone.
func TestAJoinThatWaitsIsCounted(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) { o.static["group.initial.rebalance.delay.ms"] = "600000" })
	n.topic(t, "t", 1)
	n.coordinates(t)
	w := n.dial(t)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = "g", 600_000, 600_000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: bytes.Repeat([]byte{1}, 100_000)}}
	join.SetVersion(3)
	must(t, w.send(join))
	frame := func() int64 { return n.server.Load().Stats().Other.Used }
	for begin := time.Now(); n.Parked().Used < 100_000 || frame() > 0; time.Sleep(100 * time.Microsecond) {
		if time.Since(begin) > patience {
			t.Fatalf("%+v; %d bytes of the request are still charged", n.Parked(), frame())
		}
	}
	must(t, w.Conn.(*net.TCPConn).SetLinger(0))
	must(t, w.Close())
	eventually(t, "nothing is parked for a client that is gone", func() bool { return n.Parked().Used == 0 })
}

// If each part of a request takes some time to answer, the request may have few parts.
func TestCostBoundsOfAPIs(t *testing.T) {
	n := newNode(t)
	req := kmsg.NewPtrDescribeConfigsRequest()
	for i := range 20_000 {
		x := kmsg.NewDescribeConfigsRequestResource()
		x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeGroupConfig, fmt.Sprint(i)
		req.Resources = append(req.Resources, x)
	}
	req.SetVersion(4)
	w := n.dial(t)
	must(t, w.send(req))
	if _, err := w.body(); err == nil {
		t.Error("20,000 resources were described")
	}
	req.Resources = req.Resources[:1000]
	if resp := ask[*kmsg.DescribeConfigsResponse](t, n.dial(t), 4, req); len(resp.Resources) != 1000 {
		t.Errorf("%d resources", len(resp.Resources))
	}
	for _, a := range apis() {
		if a.MaxCost < 0 || a.MaxCost > 64<<20 {
			t.Errorf("%s: %d", a.Name(), a.MaxCost)
		}
	}
	if _, err := protocol.NewTable(kmsg.RequestForKey, protocol.API{Key: int16(kmsg.Metadata), Max: 13, MaxCost: 1}); err != nil {
		t.Error(err)
	}
}
