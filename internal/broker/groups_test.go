package broker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/groups"
)

// quick are settings with which groups don't wait for members that don't come.
func quick(o *nodeOptions) {
	o.static["group.initial.rebalance.delay.ms"] = "0"
	o.static["offsets.topic.num.partitions"] = "3"
	o.static["group.consumer.heartbeat.interval.ms"] = "50"
}

// protocols are the two ways to be in a group.
func protocols() map[string][]kgo.Opt {
	next := context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true) //nolint:staticcheck,revive // the client asks for this key
	return map[string][]kgo.Opt{
		"classic":  nil,
		"consumer": {kgo.WithContext(next)},
	}
}

// member is a consumer of a group.
func (n *node) member(t testing.TB, group, topic string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return n.client(t, append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.HeartbeatInterval(50 * time.Millisecond), kgo.RebalanceTimeout(5 * time.Second), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, opts...)...)
}

// fill writes records 0 to count-1 to a topic, in turn to its partitions.
func (n *node) fill(t testing.TB, topic string, count, partitions int) {
	t.Helper()
	c := n.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range count {
		must(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: fmt.Append(nil, i)}).FirstErr())
	}
}

// poll reads until want records have come.
func poll(t testing.TB, c *kgo.Client, want int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var got []string
	for len(got) < want {
		f := c.PollFetches(ctx)
		must(t, f.Err())
		f.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	slices.Sort(got)
	return got
}

func TestAGroupReadsCommitsAndGoesOn(t *testing.T) {
	for name, opts := range protocols() {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, quick)
			n.topic(t, "t", 2)
			n.fill(t, "t", 4, 2)
			c := n.member(t, "g", "t", opts...)
			if got := poll(t, c, 4); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
				t.Fatal(got)
			}
			must(t, c.CommitUncommittedOffsets(t.Context()))
			c.Close()
			n.fill(t, "t", 2, 2)
			c = n.member(t, "g", "t", opts...)
			if got := poll(t, c, 2); !slices.Equal(got, []string{"0", "1"}) {
				t.Fatal(got)
			}
			offsets, err := kadm.NewClient(c).FetchOffsets(t.Context(), "g")
			must(t, err)
			if o, ok := offsets.Lookup("t", 1); !ok || o.At != 2 {
				t.Errorf("%+v", o)
			}
			if topic := n.image().Topic(groups.Topic); !topic.Internal || topic.Partitions.Len() != 3 || topic.Configs["cleanup.policy"] != "compact" {
				t.Errorf("%+v", topic)
			}
		})
	}
}

// coordinates waits until the node coordinates groups.
func (n *node) coordinates(t testing.TB) {
	t.Helper()
	w := n.dial(t)
	for {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKeys = []string{"g"}
		resp := ask[*kmsg.FindCoordinatorResponse](t, w, 4, req)
		list := kmsg.NewPtrListGroupsRequest()
		if resp.Coordinators[0].ErrorCode == 0 && ask[*kmsg.ListGroupsResponse](t, w, 4, list).ErrorCode == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
