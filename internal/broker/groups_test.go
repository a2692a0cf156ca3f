package broker

import (
	"context"
	"fmt"
	"maps"
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

// protocols are the two ways to be in a group, by the type that it then has.
func protocols() map[string][]kgo.Opt {
	return map[string][]kgo.Opt{"classic": nil, "consumer": {kgo.ServerSideBalancer()}}
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
			listed, err := kadm.NewClient(c).ListGroupsByType(t.Context(), []string{name})
			must(t, err)
			if g := listed["g"]; g.State != "Stable" || g.ProtocolType != "consumer" {
				t.Errorf("%+v", listed)
			}
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

// Members come and go; every partition is somebody's, and nobody's twice.
func TestMembersComeAndGo(t *testing.T) {
	for name, opts := range protocols() {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, quick)
			n.topic(t, "t", 4)
			n.coordinates(t)
			var members []*kgo.Client
			for len(members) < 3 {
				members = append(members, n.member(t, "g", "t", opts...))
				n.shared(t, members, 4)
			}
			members[0].Close()
			n.shared(t, members[1:], 4)
			members[1].Close()
			n.shared(t, members[2:], 4)
			n.fill(t, "t", 8, 4)
			if got := poll(t, members[2], 8); len(got) != 8 {
				t.Error(got)
			}
		})
	}
}

// shared waits until members have a topic's partitions, each about as many.
func (n *node) shared(t testing.TB, members []*kgo.Client, partitions int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		counts, owners := []int{}, map[string]int{}
		g, err := n.assigned(t, members[0])
		must(t, err)
		for _, owned := range g {
			counts = append(counts, len(owned))
			for _, p := range owned {
				owners[p]++
			}
		}
		if slices.Max(append(slices.Collect(maps.Values(owners)), 0)) > 1 {
			t.Fatalf("a partition has two owners: %v", g)
		}
		if len(counts) == len(members) && len(owners) == partitions && slices.Max(counts)-slices.Min(counts) <= 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d members have %v", len(members), g)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// assigned is what the group's members have, as an administrator sees it.
func (n *node) assigned(t testing.TB, c *kgo.Client) (map[string][]string, error) {
	t.Helper()
	a := map[string][]string{}
	g, err := kadm.NewClient(c).DescribeGroups(t.Context(), "g")
	if err != nil {
		return nil, err
	}
	for _, m := range g["g"].Members {
		a[m.MemberID] = nil
		if assignment, ok := m.Assigned.AsConsumer(); ok {
			for _, topic := range assignment.Topics {
				for _, p := range topic.Partitions {
					a[m.MemberID] = append(a[m.MemberID], fmt.Sprint(topic.Topic, p))
				}
			}
		}
	}
	if len(a) > 0 {
		return a, nil
	}
	consumers, err := kadm.NewClient(c).DescribeConsumerGroups(t.Context(), "g")
	for _, m := range consumers["g"].Members {
		a[m.MemberID] = nil
		for topic, list := range m.Assignment {
			for p := range list {
				a[m.MemberID] = append(a[m.MemberID], fmt.Sprint(topic, p))
			}
		}
	}
	return a, err
}
