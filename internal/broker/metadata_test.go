package broker

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
)

// metadataRequest requests topics: strings are names, arrays ids. Without any it requests all.
func metadataRequest(auto bool, topics ...any) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = auto
	for _, x := range topics {
		t := kmsg.NewMetadataRequestTopic()
		switch x := x.(type) {
		case string:
			t.Topic = &x
		case [16]byte:
			t.TopicID = x
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// topics returns the topics of an answer: name or id, error, partitions.
func topics(resp *kmsg.MetadataResponse) (list []string) {
	for _, t := range resp.Topics {
		name := "id " + metadata.FormatID(t.TopicID)
		if t.Topic != nil {
			name = *t.Topic
		}
		text := fmt.Sprintf("%s: %d", name, len(t.Partitions))
		if t.ErrorCode != 0 {
			text = fmt.Sprintf("%s: %s", name, kerr.TypedErrorForCode(t.ErrorCode).Message)
		}
		if t.IsInternal {
			text += " internal"
		}
		list = append(list, text)
	}
	return list
}

func wantTopics(t *testing.T, resp *kmsg.MetadataResponse, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, topics(resp)); diff != "" {
		t.Errorf("version %d (-want +got):\n%s", resp.Version, diff)
	}
}

func TestMetadataDescribesTopicsInEveryVersion(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "a", 2)
	w := n.dial(t)
	for v := range int16(14) {
		req := metadataRequest(false, "a")
		req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = true, true
		resp := ask[*kmsg.MetadataResponse](t, w, v, req)
		wantTopics(t, resp, "a: 2")
		host, port, err := net.SplitHostPort(n.addr)
		must(t, err)
		if b := resp.Brokers; len(b) != 1 || b[0].NodeID != 1 || b[0].Host != host || strconv.Itoa(int(b[0].Port)) != port ||
			b[0].Rack != nil {
			t.Errorf("version %d: brokers %+v", v, b)
		}
		if v >= 1 && resp.ControllerID != 1 || v >= 2 && *resp.ClusterID != n.image().ClusterID() {
			t.Errorf("version %d: controller %d, cluster %v", v, resp.ControllerID, resp.ClusterID)
		}
		topic := resp.Topics[0]
		epoch := -1
		if v >= 7 {
			epoch = 0
		}
		p := topic.Partitions[1]
		got := fmt.Sprint(p.ErrorCode, p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR, p.OfflineReplicas)
		if want := fmt.Sprint(0, 1, 1, epoch, []int32{1}, []int32{1}, []int32{}); got != want {
			t.Errorf("version %d, partition 1: %s, want %s", v, got, want)
		}
		if v >= 10 && topic.TopicID != id || v >= 8 && topic.AuthorizedOperations != 3576 {
			t.Errorf("version %d: id %x, operations %d", v, topic.TopicID, topic.AuthorizedOperations)
		}
		if v >= 8 && v <= 10 && resp.AuthorizedOperations != 8096 {
			t.Errorf("version %d: operations on the cluster %d", v, resp.AuthorizedOperations)
		}
	}
	resp := ask[*kmsg.MetadataResponse](t, w, 8, metadataRequest(false, "a"))
	if resp.AuthorizedOperations != opsNotAsked || resp.Topics[0].AuthorizedOperations != opsNotAsked {
		t.Errorf("operations that were not requested: %d, %d", resp.AuthorizedOperations, resp.Topics[0].AuthorizedOperations)
	}
}

func TestMetadataOfAllOrNoTopics(t *testing.T) {
	n := newNode(t)
	n.topic(t, "b", 1)
	n.topic(t, "a", 1)
	n.topic(t, "__consumer_offsets", 3)
	w := n.dial(t)
	all := []string{"__consumer_offsets: 3 internal", "a: 1", "b: 1"}
	for v := int16(1); v <= 13; v++ {
		wantTopics(t, ask[*kmsg.MetadataResponse](t, w, v, metadataRequest(true)), all...)
		none := metadataRequest(true)
		none.Topics = []kmsg.MetadataRequestTopic{}
		wantTopics(t, ask[*kmsg.MetadataResponse](t, w, v, none))
	}
	all[0] = "__consumer_offsets: 3" // version 0 has neither null nor the flag
	wantTopics(t, ask[*kmsg.MetadataResponse](t, w, 0, metadataRequest(true)), all...)
}

func TestMetadataOfTopicsThatAreNotThere(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "a", 1)
	other := metadata.NewID()
	w := n.dial(t)
	wantTopics(t, ask[*kmsg.MetadataResponse](t, w, 12, metadataRequest(false, "no", "bad!", "no", "__transaction_state", "a")),
		"no: UNKNOWN_TOPIC_OR_PARTITION", "bad!: INVALID_TOPIC_EXCEPTION", "__transaction_state: UNKNOWN_TOPIC_OR_PARTITION internal",
		"a: 1")
	wantTopics(t, ask[*kmsg.MetadataResponse](t, w, 13, metadataRequest(true, id, other)),
		"a: 1", "id "+metadata.FormatID(other)+": UNKNOWN_TOPIC_ID")
	for _, v := range []int16{10, 11} {
		resp := ask[*kmsg.MetadataResponse](t, w, v, metadataRequest(false, id))
		if len(resp.Brokers) != 0 || len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("an id in version %d: %+v", v, resp)
		}
	}
	resp := ask[*kmsg.MetadataResponse](t, w, 13, metadataRequest(false, nil))
	if resp.ErrorCode != kerr.InvalidRequest.Code || resp.Topics[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("neither name nor id: %+v", resp)
	}
	if n.image().NumTopics() != 1 {
		t.Error("a topic was created although the request did not allow it")
	}
}

// created requests topics until none of them is unknown, and returns the last answer.
func (n *node) created(t *testing.T, w *wire, version int16, names ...any) *kmsg.MetadataResponse {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		resp := ask[*kmsg.MetadataResponse](t, w, version, metadataRequest(true, names...))
		unknown := func(x kmsg.MetadataResponseTopic) bool { return x.ErrorCode == kerr.UnknownTopicOrPartition.Code }
		if !slices.ContainsFunc(resp.Topics, unknown) {
			return resp
		}
		if time.Since(begin) > patience {
			t.Fatalf("version %d: %v", version, topics(resp))
		}
	}
}

// As in Kafka, the request that creates a topic does not wait for it.
func TestMetadataCreatesTopicsInBackground(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) { o.static["num.partitions"] = "3" })
	n.topic(t, "x.y", 1)
	w := n.dial(t)
	wantTopics(t, ask[*kmsg.MetadataResponse](t, w, 12, metadataRequest(true, "new", "bad!", "x_y", "__consumer_offsets", "x.y", "new")),
		"new: UNKNOWN_TOPIC_OR_PARTITION", "bad!: INVALID_TOPIC_EXCEPTION", "x_y: UNKNOWN_TOPIC_OR_PARTITION",
		"__consumer_offsets: UNKNOWN_TOPIC_OR_PARTITION internal", "x.y: 1")
	wantTopics(t, n.created(t, w, 12, "new"), "new: 3")
	// The reason of a failure is answered once; the next request tries again.
	wantTopics(t, n.created(t, w, 12, "x_y"), "x_y: INVALID_TOPIC_EXCEPTION")
	wantTopics(t, n.created(t, w, 12, "x_y"), "x_y: INVALID_TOPIC_EXCEPTION")
	for v := range int16(14) {
		name := fmt.Sprint("new-", v)
		wantTopics(t, ask[*kmsg.MetadataResponse](t, w, v, metadataRequest(true, name)), name+": UNKNOWN_TOPIC_OR_PARTITION")
		wantTopics(t, n.created(t, w, v, name), name+": 3")
	}
	if _, err := n.opt.Replicas.Partition(n.image().Topic("new").ID, 2); err != nil {
		t.Errorf("a topic was answered that can't be used: %v", err)
	}
	// Before version 4 a request could not forbid it.
	wantTopics(t, ask[*kmsg.MetadataResponse](t, w, 3, metadataRequest(false, "old")), "old: UNKNOWN_TOPIC_OR_PARTITION")
	wantTopics(t, n.created(t, w, 3, "old"), "old: 3")
	wantTopics(t, ask[*kmsg.MetadataResponse](t, w, 4, metadataRequest(false, "young")), "young: UNKNOWN_TOPIC_OR_PARTITION")
	n.work.Wait()
	if n.image().Topic("young") != nil {
		t.Error("a topic was created although the request did not allow it")
	}
}

// The number of topics that could not be created is bounded, and they are not remembered for good.
func TestCreationsAreBounded(t *testing.T) {
	var c creations
	names := func(prefix string, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint(prefix, i))
		}
		return list
	}
	under, _ := c.begin(names("under way ", 3), nil)
	for round := range 20 {
		fresh, old := c.begin(names(fmt.Sprint(round, " "), maxCreations/3), nil)
		if len(old) > 0 || len(c.topics) > maxCreations {
			t.Fatalf("round %d: %d topics, %d failed", round, len(c.topics), len(old))
		}
		failed := map[string]error{}
		for _, name := range fresh {
			failed[name] = errTimedOut
		}
		c.end(fresh, failed)
		if len(c.topics) > maxCreations {
			t.Fatalf("round %d: %d topics", round, len(c.topics))
		}
	}
	if again, _ := c.begin(under, nil); len(again) > 0 {
		t.Errorf("%v were begun again", again)
	}
	fresh, _ := c.begin(names("many ", 2*maxCreations), nil)
	if len(c.topics) != maxCreations || len(fresh) == 0 {
		t.Errorf("%d topics, %d begun", len(c.topics), len(fresh))
	}
}

// Only a topic that is begun costs its quota: not one that is being created already, and not one
// whose reason is returned.
func TestOnlyACreationThatBeginsIsCharged(t *testing.T) {
	var c creations
	var asked []string
	may := func(name string) bool { asked = append(asked, name); return name != "refused" }
	fresh, _ := c.begin([]string{"new", "refused"}, may)
	again, failed := c.begin([]string{"new", "new"}, may)
	if !slices.Equal(fresh, []string{"new"}) || len(again)+len(failed) > 0 || !slices.Equal(asked, []string{"new", "refused"}) {
		t.Errorf("%v and %v were begun, %v failed, %v were asked for", fresh, again, failed, asked)
	}
	c.end(fresh, map[string]error{"new": errTimedOut})
	again, failed = c.begin([]string{"new"}, may)
	if len(again) > 0 || failed["new"] == nil || len(asked) != 2 {
		t.Errorf("%v were begun, %v failed, %v were asked for", again, failed, asked)
	}
}

func TestMetadataCreatesNothingWhereTheBrokerForbidsIt(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) { o.static["auto.create.topics.enable"] = "false" })
	w := n.dial(t)
	for _, v := range []int16{0, 3, 4, 13} {
		wantTopics(t, ask[*kmsg.MetadataResponse](t, w, v, metadataRequest(true, "new")), "new: UNKNOWN_TOPIC_OR_PARTITION")
	}
}

func TestManyClientsAskForOneNewTopicAtOnce(t *testing.T) {
	n := newNode(t)
	done := make(chan []string)
	for range 8 {
		w := n.dial(t)
		go func() {
			req := metadataRequest(true, "new")
			req.SetVersion(12)
			if err := w.send(req); err != nil {
				done <- []string{err.Error()}
				return
			}
			resp, err := w.receive(req)
			if err != nil {
				done <- []string{err.Error()}
				return
			}
			done <- topics(resp.(*kmsg.MetadataResponse))
		}()
	}
	for range 8 {
		if got := <-done; len(got) != 1 || got[0] != "new: 1" && got[0] != "new: UNKNOWN_TOPIC_OR_PARTITION" {
			t.Errorf("%v: neither the topic nor a retriable error", got)
		}
	}
	wantTopics(t, n.created(t, n.dial(t), 12, "new"), "new: 1")
	if n.image().NumTopics() != 1 {
		t.Errorf("%d topics", n.image().NumTopics())
	}
}

func TestAListenerAdvertisesItsAddress(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) {
		o.listener.AdvertisedHost, o.listener.AdvertisedPort = "kafka.example", 1234
		o.static["broker.rack"] = "r1"
	})
	w := n.dial(t)
	b := ask[*kmsg.MetadataResponse](t, w, 12, metadataRequest(false)).Brokers[0]
	if b.Host != "kafka.example" || b.Port != 1234 || b.Rack == nil || *b.Rack != "r1" {
		t.Errorf("%+v", b)
	}
	c := ask[*kmsg.DescribeClusterResponse](t, w, 2, kmsg.NewPtrDescribeClusterRequest())
	if b := c.Brokers[0]; b.Host != "kafka.example" || b.Port != 1234 || b.Rack == nil || b.NodeID != 1 || b.IsFenced ||
		c.ClusterID != n.image().ClusterID() || c.ControllerID != 1 || c.ClusterAuthorizedOperations != opsNotAsked {
		t.Errorf("%+v", c)
	}
}

func TestDescribeClusterKnowsBrokersOnly(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	for _, c := range []struct {
		version int16
		kind    int8
		want    *kerr.Error
		ops     int32
	}{{0, 2, nil, 8096}, {1, 1, nil, 8096}, {1, 2, kerr.MismatchedEndpointType, opsNotAsked},
		{2, 3, kerr.UnsupportedEndpointType, opsNotAsked}} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType, req.IncludeClusterAuthorizedOperations = c.kind, true
		resp := ask[*kmsg.DescribeClusterResponse](t, w, c.version, req)
		if kerr.TypedErrorForCode(resp.ErrorCode) != c.want || (c.want != nil) != (resp.ErrorMessage != nil) ||
			resp.ClusterAuthorizedOperations != c.ops {
			t.Errorf("version %d type %d: %+v", c.version, c.kind, resp)
		}
	}
}
