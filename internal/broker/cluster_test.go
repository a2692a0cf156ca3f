package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/view"
)

// fakeCluster is the other brokers of a cluster.
type fakeCluster struct {
	mu      sync.Mutex
	leader  uint64
	quorum  controller.Quorum
	err     error // of every request
	elected []metadata.TopicPartition
	elect   func(metadata.TopicPartition) (revision int64, err error)
	gone    []int32
	asked   []view.SnapshotAsk
	refusal string // of the service of snapshots
}

// set changes the answers to requests that arrive from now on.
func (c *fakeCluster) set(change func(*fakeCluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

func (c *fakeCluster) Leader() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader
}

func (c *fakeCluster) Quorum(context.Context) (controller.Quorum, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quorum, c.err
}

func (c *fakeCluster) Unregister(_ context.Context, broker int32) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = append(c.gone, broker)
	return 1, c.err
}

func (c *fakeCluster) ElectUnclean(_ context.Context, list []metadata.TopicPartition) (revision int64, errs []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.elected = append(c.elected, list...)
	for _, tp := range list {
		err := c.err
		if c.elect != nil && err == nil {
			var at int64
			at, err = c.elect(tp)
			revision = max(revision, at)
		}
		errs = append(errs, err)
	}
	return revision, errs
}

func (c *fakeCluster) Snapshots(context.Context) (view.Snapshots, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return view.Snapshots{URL: "file:///x", Term: 7}, c.err
}

func (c *fakeCluster) AskSnapshot(_ context.Context, q view.SnapshotAsk) (view.SnapshotAnswer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, q)
	if c.refusal != "" {
		return view.SnapshotAnswer{Error: c.refusal}, nil
	}
	return view.SnapshotAnswer{ID: int64(len(c.asked)), Term: 7}, c.err
}

// inCluster makes a node a member of a cluster.
func inCluster(c *fakeCluster) func(*nodeOptions) {
	return func(o *nodeOptions) { o.broker = func(b *Options) { b.Cluster = c } }
}

// registerMember is register for a broker that is a member of the quorum.
func (n *node) registerMember(t testing.TB, id int32, state metadata.BrokerState, dirs ...metadata.BrokerDir) {
	t.Helper()
	b := metadata.Broker{Incarnation: metadata.NewID(), Member: 0xa00 + uint64(id), Dirs: dirs,
		Listeners: []metadata.Endpoint{{Listener: "test", Host: fmt.Sprintf("host%d", id), Port: 9000 + id}}}
	n.write(t, metadata.KV{Key: metadata.BrokerKey(id), Value: b.Encode()},
		metadata.KV{Key: metadata.LivenessKey(id), Value: state.Encode()})
}

// write writes keys and waits until the node shows them.
func (n *node) write(t testing.TB, kvs ...metadata.KV) {
	t.Helper()
	rev, err := n.store.Txn(t.Context(), metadata.Txn{Put: kvs})
	must(t, err)
	must(t, n.applier.WaitFor(t.Context(), rev))
}

// record changes the record of a partition, and waits until the node shows it.
func (n *node) record(t testing.TB, tp metadata.TopicPartition, change func(*metadata.Partition)) {
	t.Helper()
	p := *n.image().Partition(tp)
	change(&p)
	p.PartitionEpoch++
	n.write(t, metadata.KV{Key: metadata.PartitionKey(tp.Topic, tp.Partition), Value: p.Encode()})
}

func quorumRequest(topic string, partitions ...int32) *kmsg.DescribeQuorumRequest {
	req := kmsg.NewPtrDescribeQuorumRequest()
	one := kmsg.DescribeQuorumRequestTopic{Topic: topic}
	for _, p := range partitions {
		one.Partitions = append(one.Partitions, kmsg.DescribeQuorumRequestTopicPartition{Partition: p})
	}
	req.Topics = []kmsg.DescribeQuorumRequestTopic{one}
	return req
}

func TestDescribeQuorum(t *testing.T) {
	c := &fakeCluster{quorum: controller.Quorum{Leader: 0xa02, Term: 1 << 40, Commit: 100, Members: []controller.QuorumMember{
		{Member: 0xa02, Voter: true, End: 101}, {Member: 0xa03, Voter: true, End: 90, Silent: 2 * time.Second},
		{Member: 0xbad, Voter: true, End: 0, Silent: time.Hour}, {Member: 0xa04, End: 100},
	}}}
	n := newNode(t, inCluster(c))
	for id := int32(2); id <= 4; id++ {
		n.registerMember(t, id, metadata.BrokerState{Liveness: metadata.Active})
	}
	w := n.dial(t)
	for version := int16(0); version <= 2; version++ {
		resp := ask[*kmsg.DescribeQuorumResponse](t, w, version, quorumRequest("__cluster_metadata", 0))
		p := resp.Topics[0].Partitions[0]
		got := fmt.Sprint(resp.ErrorCode, p.ErrorCode, p.LeaderID, p.LeaderEpoch, p.HighWatermark)
		for _, x := range append(slices.Clone(p.CurrentVoters), p.Observers...) {
			silent, caught := p.CurrentVoters[0].LastFetchTimestamp-x.LastFetchTimestamp, x.LastCaughtUpTimestamp >= 0
			if version == 0 {
				silent, caught = 0, false
			}
			got += fmt.Sprintf(" %d:%d(%d %t %x)", x.ReplicaID, x.LogEndOffset, silent, caught, x.ReplicaDirectoryID[6:8])
		}
		want := [...]string{
			"0 0 2 2147483647 100 2:101(0 false 0000) 3:90(0 false 0000) -1:0(0 false 0000) 4:100(0 false 0000)",
			"0 0 2 2147483647 100 2:101(0 true 0000) 3:90(2000 false 0000) -1:0(3600000 false 0000) 4:100(0 true 0000)",
			"0 0 2 2147483647 100 2:101(0 true 0a02) 3:90(2000 false 0a03) -1:0(3600000 false 0bad) 4:100(0 true 0a04)",
		}[version]
		if got != want {
			t.Errorf("version %d:\n%s, want\n%s", version, got, want)
		}
		var nodes string
		for _, x := range resp.Nodes {
			nodes += fmt.Sprint(x.NodeID, x.Listeners, " ")
		}
		if want := "2 [{TEST host2 9002 {map[]}}] 3 [{TEST host3 9003 {map[]}}] -1 [] "; version == 2 && nodes != want {
			t.Errorf("nodes %s, want %s", nodes, want)
		}
	}
}

// Requests for anything but Kafka's metadata log are refused in every part that they name. Without
// a metadata leader the error makes clients retry.
func TestDescribeQuorumIsRefused(t *testing.T) {
	c := &fakeCluster{}
	n := newNode(t, inCluster(c))
	w := n.dial(t)
	for name, x := range map[string]struct {
		req  *kmsg.DescribeQuorumRequest
		err  error
		want string
	}{
		"other topic":     {quorumRequest("t", 0), nil, "t 0 UNKNOWN_TOPIC_OR_PARTITION "},
		"other partition": {quorumRequest(quorumTopic, 1), nil, "__cluster_metadata 1 UNKNOWN_TOPIC_OR_PARTITION "},
		"two partitions": {quorumRequest(quorumTopic, 0, 0), nil,
			"__cluster_metadata 0 UNKNOWN_TOPIC_OR_PARTITION __cluster_metadata 0 UNKNOWN_TOPIC_OR_PARTITION "},
		"nothing":      {kmsg.NewPtrDescribeQuorumRequest(), nil, ""},
		"no partition": {quorumRequest(quorumTopic), nil, ""},
		"no leader":    {quorumRequest(quorumTopic, 0), controller.ErrNotController, "__cluster_metadata 0 NOT_LEADER_FOR_PARTITION "},
		"no answer":    {quorumRequest(quorumTopic, 0), context.DeadlineExceeded, "__cluster_metadata 0 NOT_LEADER_FOR_PARTITION "},
	} {
		c.set(func(c *fakeCluster) { c.err = x.err })
		got := ""
		resp := ask[*kmsg.DescribeQuorumResponse](t, w, 2, x.req)
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				got += fmt.Sprintf("%s %d %s ", topic.Topic, p.Partition, said(p.ErrorCode, nil))
				if p.ErrorMessage == nil {
					t.Errorf("%s: no message", name)
				}
			}
		}
		if got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

func TestUnregisterBroker(t *testing.T) {
	c := &fakeCluster{}
	n := newNode(t, inCluster(c))
	w := n.dial(t)
	for _, x := range []struct {
		err  error
		code *kerr.Error
	}{
		{nil, nil},
		{&controller.Error{Kind: controller.BrokerNotRegistered, Msg: "Broker ID 7 is not currently registered"},
			kerr.BrokerIDNotRegistered},
		{&controller.Error{Kind: controller.InvalidRequest, Msg: "broker 7 is alive"}, kerr.InvalidRequest},
		{controller.ErrNotController, kerr.RequestTimedOut}, // the Java client retries only on this code
		{metadata.ErrUnavailable, kerr.RequestTimedOut},
		{metadata.ErrUnknown, kerr.RequestTimedOut},
		{context.DeadlineExceeded, kerr.RequestTimedOut},
		{errors.New("other"), kerr.UnknownServerError},
	} {
		c.set(func(c *fakeCluster) { c.err = x.err })
		resp := ask[*kmsg.UnregisterBrokerResponse](t, w, 0, &kmsg.UnregisterBrokerRequest{BrokerID: 7})
		if want := orSuccess(x.code); resp.ErrorCode != want || (resp.ErrorMessage == nil) != (want == 0) {
			t.Errorf("%v: code %d, want %d", x.err, resp.ErrorCode, want)
		}
	}
	c.set(func(c *fakeCluster) {
		if len(c.gone) != 8 || c.gone[0] != 7 {
			t.Errorf("unregistered: %v", c.gone)
		}
	})
}

// The controller that clients see is the broker that leads the metadata, if they can connect to it.
func TestTheControllerIsTheMetadataLeader(t *testing.T) {
	c := &fakeCluster{}
	n := newNode(t, inCluster(c))
	n.registerMember(t, 2, metadata.BrokerState{Liveness: metadata.Active})
	n.registerMember(t, 3, metadata.BrokerState{Liveness: metadata.Fenced})
	away := metadata.Broker{Member: 0xa04, Listeners: []metadata.Endpoint{{Listener: "x", Host: "x", Port: 1}}}
	n.write(t, metadata.KV{Key: metadata.BrokerKey(4), Value: away.Encode()},
		metadata.KV{Key: metadata.LivenessKey(4), Value: metadata.BrokerState{Liveness: metadata.Active}.Encode()})
	for leader, want := range map[uint64]int32{0xa02: 2, 0xa03: 1, 0xa04: 1, 0: 1, 0xa99: 1} {
		c.set(func(c *fakeCluster) { c.leader = leader })
		w := n.dial(t)
		if got := ask[*kmsg.MetadataResponse](t, w, 12, metadataRequest(false)).ControllerID; got != want {
			t.Errorf("Metadata, leader %x: %d, want %d", leader, got, want)
		}
		if got := ask[*kmsg.DescribeClusterResponse](t, w, 2, kmsg.NewPtrDescribeClusterRequest()).ControllerID; got != want {
			t.Errorf("DescribeCluster, leader %x: %d, want %d", leader, got, want)
		}
	}
}

// Metadata and DescribeTopicPartitions name replicas that accept no records: their broker does not
// run, or has lost the log directory, or reports that the log is damaged while another replica has
// what it lacks. Such a leader is no leader for clients. ELR and the last member are shown.
func TestReplicasOfOtherBrokersAreOffline(t *testing.T) {
	n := newNode(t, inCluster(&fakeCluster{}))
	id := n.topic(t, "t", 1)
	tp := metadata.TopicPartition{Topic: id}
	good, failed := metadata.BrokerDir{ID: [16]byte{1}}, metadata.BrokerDir{ID: [16]byte{3}}
	bad := metadata.BrokerDir{ID: [16]byte{2}, Offline: true}
	n.registerMember(t, 2, metadata.BrokerState{Liveness: metadata.Fenced}, good)
	n.registerMember(t, 3, metadata.BrokerState{Liveness: metadata.Starting}, good)
	n.registerMember(t, 4, metadata.BrokerState{Liveness: metadata.Draining}, good)
	n.registerMember(t, 5, metadata.BrokerState{Liveness: metadata.Active}, bad)
	unable := []metadata.UnableDir{{ID: [16]byte{3}, Why: metadata.DirFailed}}
	n.registerMember(t, 6, metadata.BrokerState{Liveness: metadata.Active, Unable: unable}, failed)
	n.registerMember(t, 7, metadata.BrokerState{Liveness: metadata.Active, Damaged: []metadata.TopicPartition{tp}}, good)
	n.registerMember(t, 8, metadata.BrokerState{Liveness: metadata.Active}, good)
	for broker, dir := range map[int32][16]byte{2: {1}, 3: {1}, 4: {1}, 5: {2}, 6: {3}, 7: {1}, 8: {1}} {
		var none metadata.Placement
		n.write(t, metadata.KV{Key: metadata.PlacementKey(broker, id), Value: none.With(map[int32][16]byte{0: dir}).Encode()})
	}
	for _, c := range []struct {
		leader  int32
		isr     []int32
		elr     []int32
		last    int32
		want    int32
		offline []int32
		lastELR []int32
	}{
		{8, []int32{1, 8}, []int32{2, 3}, 0, 8, []int32{2, 3, 5, 6, 7, 9}, []int32{}},
		{4, []int32{4}, nil, 0, 4, []int32{2, 3, 5, 6, 7, 9}, []int32{}},
		{2, []int32{2}, nil, 0, -1, []int32{2, 3, 5, 6, 7, 9}, []int32{}},
		{6, []int32{6}, nil, 0, -1, []int32{2, 3, 5, 6, 7, 9}, []int32{}},
		{7, []int32{7}, nil, 0, 7, []int32{2, 3, 5, 6, 9}, []int32{}}, // it serves its other records
		{-1, nil, nil, 5, -1, []int32{2, 3, 5, 6, 9}, []int32{5}},
	} {
		n.record(t, tp, func(p *metadata.Partition) {
			p.Leader, p.Replicas, p.ISR, p.ELR = c.leader, []int32{1, 2, 3, 4, 5, 6, 7, 8, 9}, c.isr, c.elr
			p.LeaderEpoch++
			if p.Last = (metadata.LastReplica{}); c.last > 0 {
				p.Last = metadata.LastReplica{Broker: c.last, Dir: [16]byte{2}}
			}
		})
		w := n.dial(t)
		m := ask[*kmsg.MetadataResponse](t, w, 12, metadataRequest(true)).Topics[0].Partitions[0]
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = 10
		d := ask[*kmsg.DescribeTopicPartitionsResponse](t, w, 0, req).Topics[0].Partitions[0]
		want := fmt.Sprint(c.want, c.offline, c.isr)
		if got := fmt.Sprint(m.Leader, m.OfflineReplicas, m.ISR); got != want {
			t.Errorf("Metadata, leader %d: %s, want %s", c.leader, got, want)
		}
		if got := fmt.Sprint(d.LeaderID, d.OfflineReplicas, d.ISR); got != want {
			t.Errorf("DescribeTopicPartitions, leader %d: %s, want %s", c.leader, got, want)
		}
		want = fmt.Sprint(append([]int32{}, c.elr...), c.lastELR)
		if got := fmt.Sprint(d.EligibleLeaderReplicas, d.LastKnownELR); got != want {
			t.Errorf("leader %d: %s, want %s", c.leader, got, want)
		}
	}
}

// Preferred leaders are elected on any broker; a leader that may lack records by the controller.
func TestLeadersAreElected(t *testing.T) {
	c := &fakeCluster{}
	n := newNode(t, inCluster(c))
	id := n.topic(t, "t", 4)
	dir := metadata.BrokerDir{ID: [16]byte{1}}
	n.registerMember(t, 2, metadata.BrokerState{Liveness: metadata.Active}, dir)
	n.registerMember(t, 3, metadata.BrokerState{Liveness: metadata.Fenced}, dir)
	set := func(partition, leader int32, replicas, isr []int32) {
		n.record(t, metadata.TopicPartition{Topic: id, Partition: partition}, func(p *metadata.Partition) {
			p.Leader, p.Replicas, p.ISR = leader, replicas, isr
			p.LeaderEpoch++
			if p.Last = (metadata.LastReplica{}); len(isr) == 0 {
				p.Last = metadata.LastReplica{Broker: replicas[0], Dir: [16]byte{1}}
			}
		})
	}
	set(0, 1, []int32{2, 1}, []int32{1, 2})
	set(1, 1, []int32{2, 1}, []int32{1})
	set(2, 1, []int32{3, 1}, []int32{1, 3})
	set(3, -1, []int32{2, 3}, nil)
	const notNeeded = "ELECTION_NOT_NEEDED: Leader election not needed for topic partition."
	const notAvailable = "PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available."
	w := n.dial(t)
	one := func(partitions ...int32) []kmsg.ElectLeadersRequestTopic {
		return []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: partitions}}
	}
	for i, x := range []struct {
		kind   int8
		topics []kmsg.ElectLeadersRequestTopic
		err    error
		want   []string
	}{
		{0, one(0, 1, 2, 3, 9, 0), nil, []string{"t", "0 ok", "1 " + notAvailable, "2 " + notAvailable, "3 " + notAvailable,
			"9 UNKNOWN_TOPIC_OR_PARTITION: No such partition as t-9", "0 ok"}},
		{0, one(0), nil, []string{"t", "0 " + notNeeded}},
		{0, nil, nil, []string{"t", "1 " + notAvailable, "2 " + notAvailable, "3 " + notAvailable}},
		{1, one(0, 3), controller.ErrNotController, []string{"t", "0 " + notNeeded,
			"3 REQUEST_TIMED_OUT: this broker is not the controller"}},
		{1, one(3), &controller.Error{Kind: controller.EligibleLeadersNotAvailable, Msg: "none"}, []string{"t",
			"3 ELIGIBLE_LEADERS_NOT_AVAILABLE: none"}},
		{1, nil, nil, []string{"t", "3 ok"}},
	} {
		c.set(func(c *fakeCluster) { c.err = x.err })
		if diff := cmp.Diff(x.want, elected(t, w, 2, x.kind, x.topics)); diff != "" {
			t.Errorf("%d (-want +got):\n%s", i, diff)
		}
	}
	if p := n.image().Partition(metadata.TopicPartition{Topic: id}); p.Leader != 2 {
		t.Errorf("partition 0 is led by %d", p.Leader)
	}
	c.set(func(c *fakeCluster) {
		if want := slices.Repeat([]metadata.TopicPartition{{Topic: id, Partition: 3}}, 3); !slices.Equal(c.elected, want) {
			t.Errorf("the controller elected for %v", c.elected)
		}
	})
}

// An operator confirms a loss with an election type of chronik's own. It elects nothing.
func TestALossIsConfirmed(t *testing.T) {
	n := newNode(t, inCluster(&fakeCluster{}))
	id := n.topic(t, "t", 1)
	tp := metadata.TopicPartition{Topic: id}
	var before metadata.Partition
	n.record(t, tp, func(p *metadata.Partition) {
		p.LeaderEpoch++
		p.Unclean = p.LeaderEpoch
		before = *p
	})
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType, req.TimeoutMillis = view.ConfirmLoss, 60_000
	resp := ask[*kmsg.ElectLeadersResponse](t, n.dial(t), 2, req)
	if got := resp.Topics[0].Partitions[0]; got.ErrorCode != 0 {
		t.Errorf("code %d", got.ErrorCode)
	}
	p := n.image().Partition(tp)
	if p.Lost() || p.Confirmed != before.Unclean || p.LeaderEpoch != before.LeaderEpoch || p.Leader != before.Leader {
		t.Errorf("%+v, before %+v", p, before)
	}
	req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	resp = ask[*kmsg.ElectLeadersResponse](t, n.dial(t), 2, req)
	if got := resp.Topics[0].Partitions[0].ErrorCode; got != kerr.ElectionNotNeeded.Code {
		t.Errorf("a second time: code %d", got)
	}
}

// The answer to an election waits until this broker shows the new leader, at most for the timeout
// of the request.
func TestAnElectionWaitsForItsTimeout(t *testing.T) {
	c := &fakeCluster{elect: func(metadata.TopicPartition) (int64, error) { return 1 << 40, nil }}
	n := newNode(t, inCluster(c))
	id := n.topic(t, "t", 1)
	n.record(t, metadata.TopicPartition{Topic: id}, func(p *metadata.Partition) {
		p.Leader, p.ISR, p.Last = -1, nil, metadata.LastReplica{Broker: 1, Dir: [16]byte{1}}
	})
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType, req.TimeoutMillis = uncleanElection, 1
	resp := ask[*kmsg.ElectLeadersResponse](t, n.dial(t), 2, req)
	if got := resp.Topics[0].Partitions[0].ErrorCode; got != kerr.RequestTimedOut.Code {
		t.Errorf("code %d", got)
	}
}
