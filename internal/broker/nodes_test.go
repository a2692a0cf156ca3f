package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
)

// register writes the registration and the state of another broker, and waits until the node knows
// them.
func (n *node) register(t testing.TB, id int32, state metadata.Liveness, listeners ...metadata.Endpoint) {
	t.Helper()
	b := metadata.Broker{Incarnation: metadata.NewID(), Listeners: listeners, Rack: fmt.Sprintf("r%d", id)}
	rev, err := n.store.Txn(t.Context(), metadata.Txn{Put: []metadata.KV{
		{Key: metadata.BrokerKey(id), Value: b.Encode()},
		{Key: metadata.LivenessKey(id), Value: metadata.BrokerState{Liveness: state}.Encode()},
	}})
	must(t, err)
	must(t, n.applier.WaitFor(t.Context(), rev))
}

// lead makes a broker the leader and the only replica of a partition, so that the node serves no
// fetches of it, and waits until the node knows it.
func (n *node) lead(t testing.TB, tp metadata.TopicPartition, leader int32) {
	t.Helper()
	p := *n.image().Partition(tp)
	p.Leader, p.LeaderEpoch, p.Replicas, p.ISR = leader, p.LeaderEpoch+1, []int32{leader}, []int32{leader}
	rev, err := n.store.Txn(t.Context(),
		metadata.Txn{Put: []metadata.KV{{Key: metadata.PartitionKey(tp.Topic, tp.Partition), Value: p.Encode()}}})
	must(t, err)
	must(t, n.applier.WaitFor(t.Context(), rev))
}

func (n *node) addresses(t testing.TB) (list []string) {
	t.Helper()
	for _, b := range ask[*kmsg.MetadataResponse](t, n.dial(t), 12, metadataRequest(false)).Brokers {
		list = append(list, fmt.Sprintf("%d %s:%d", b.NodeID, b.Host, b.Port))
	}
	return list
}

// Clients of a listener get the addresses with which the brokers registered the listener of that
// name, of those brokers only that they can use.
func TestBrokersAreNamedPerListener(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) {
		o.listener = network.Listener{Name: "inside", AdvertisedHost: "one", AdvertisedPort: 1}
	})
	inside := metadata.Endpoint{Listener: "inside", Host: "two", Port: 2}
	outside := metadata.Endpoint{Listener: "outside", Host: "x", Port: 9}
	n.register(t, 2, metadata.Active, outside, inside)
	n.register(t, 3, metadata.Fenced, inside)
	n.register(t, 4, metadata.Draining, metadata.Endpoint{Listener: "inside", Host: "four", Port: 4})
	n.register(t, 5, metadata.Drained, inside)
	n.register(t, 6, metadata.Active, outside)
	if got := fmt.Sprint(n.addresses(t)); got != "[1 one:1 2 two:2 4 four:4]" {
		t.Errorf("Metadata: %s", got)
	}
	for fenced, want := range map[bool]string{
		false: "[1 one false 2 two false 4 four false]", true: "[1 one false 2 two false 3 two true 4 four false 5 two true]",
	} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.IncludeFencedBrokers = fenced
		var list []any
		for _, b := range ask[*kmsg.DescribeClusterResponse](t, n.dial(t), 2, req).Brokers {
			list = append(list, b.NodeID, b.Host, b.IsFenced)
		}
		if got := fmt.Sprint(list); got != want {
			t.Errorf("DescribeCluster, fenced %t: %s, want %s", fenced, got, want)
		}
	}
}

// A hint to a new leader (KIP-951) and the answer to FindCoordinator have the leader's own address,
// and none if the leader is fenced.
func TestLeadersHaveTheirOwnAddress(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	n.topic(t, service.OffsetsTopic, 1)
	offsets := metadata.TopicPartition{Topic: n.image().Topic(service.OffsetsTopic).ID}
	n.register(t, 2, metadata.Active, metadata.Endpoint{Listener: "test", Host: "two", Port: 2})
	n.lead(t, metadata.TopicPartition{Topic: id}, 2)
	n.lead(t, offsets, 2)
	answers := func() (hint, coordinator string) {
		w := n.dial(t)
		resp := ask[*kmsg.FetchResponse](t, w, 16, fetchRequest(0, named("t", id)))
		coord := kmsg.NewPtrFindCoordinatorRequest()
		coord.CoordinatorKeys = []string{"g"}
		c := ask[*kmsg.FindCoordinatorResponse](t, w, 4, coord).Coordinators[0]
		for _, b := range resp.Brokers {
			hint += fmt.Sprintf("%d %s:%d", b.NodeID, b.Host, b.Port)
		}
		return hint, fmt.Sprintf("%d %s:%d", c.NodeID, c.Host, c.Port)
	}
	if hint, coordinator := answers(); hint != "2 two:2" || coordinator != "2 two:2" {
		t.Errorf("hint to %q, coordinator %q", hint, coordinator)
	}
	n.register(t, 2, metadata.Fenced, metadata.Endpoint{Listener: "test", Host: "two", Port: 2})
	if hint, coordinator := answers(); hint != "" || coordinator != "-1 :-1" {
		t.Errorf("of a fenced broker: hint to %q, coordinator %q", hint, coordinator)
	}
}

// Its clients would otherwise look for a broker that the answer does not list.
func TestALeaderWithoutTheListenerOfTheClient(t *testing.T) {
	n := newNode(t)
	tp := metadata.TopicPartition{Topic: n.topic(t, "t", 1)}
	n.register(t, 2, metadata.Active, metadata.Endpoint{Listener: "other", Host: "two", Port: 2})
	n.lead(t, tp, 2)
	check := func(version int16, leader int32, want int16) {
		t.Helper()
		m := ask[*kmsg.MetadataResponse](t, n.dial(t), version, metadataRequest(true)).Topics[0].Partitions[0]
		if m.Leader != leader || m.ErrorCode != want {
			t.Errorf("Metadata version %d: leader %d, error code %d, want %d and %d", version, m.Leader, m.ErrorCode, leader, want)
		}
	}
	check(5, -1, kerr.LeaderNotAvailable.Code)
	check(6, -1, kerr.ListenerNotFound.Code)
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 1
	d := ask[*kmsg.DescribeTopicPartitionsResponse](t, n.dial(t), 0, req).Topics[0].Partitions[0]
	if d.LeaderID != -1 || d.ErrorCode != kerr.ListenerNotFound.Code {
		t.Errorf("DescribeTopicPartitions: leader %d, error code %d", d.LeaderID, d.ErrorCode)
	}
	n.register(t, 2, metadata.Fenced, metadata.Endpoint{Listener: "other", Host: "two", Port: 2})
	check(6, -1, kerr.LeaderNotAvailable.Code)
	n.register(t, 2, metadata.Active, metadata.Endpoint{Listener: "test", Host: "two", Port: 2})
	check(6, 2, 0)
}
