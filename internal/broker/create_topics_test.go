package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
)

func newTopic(name string, partitions int32, rf int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, rf
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		if *c.Value == "null" {
			c.Value = nil
		}
		t.Configs = append(t.Configs, c)
	}
	return t
}

func assigned(t kmsg.CreateTopicsRequestTopic, brokers ...int32) kmsg.CreateTopicsRequestTopic {
	for i, id := range brokers {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), []int32{id}
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
	return t
}

func createRequest(validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.ValidateOnly, req.Topics = 120_000, validateOnly, topics
	return req
}

// said returns an error in an answer: its name and message.
func said(code int16, msg *string) string {
	if code == 0 && msg == nil {
		return "ok"
	}
	text := fmt.Sprint(code)
	if e := kerr.TypedErrorForCode(code); e != nil {
		text = e.Message
	}
	if msg != nil {
		text += ": " + *msg
	}
	return text
}

func (n *node) mustHave(t *testing.T, name string, partitions int32) *metadata.Topic {
	t.Helper()
	topic := n.image().Topic(name)
	if topic == nil || topic.Partitions.Len() != partitions {
		t.Fatalf("topic %s is %+v, want %d partitions", name, topic, partitions)
	}
	for i := range partitions {
		if _, err := n.opt.Replicas.Partition(topic.ID, i); err != nil {
			t.Errorf("partition %d: %v", i, err)
		}
	}
	return topic
}

func TestCreateTopicsAnswersWhenTheTopicCanBeUsed(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) { o.static["num.partitions"] = "4" })
	w := n.dial(t)
	for v := int16(2); v <= 7; v++ {
		name := fmt.Sprint("t", v)
		resp := ask[*kmsg.CreateTopicsResponse](t, w, v, createRequest(false,
			newTopic(name, 3, 1, "segment.ms", " 1000 ", "min.insync.replicas", "1"), newTopic(name+"-defaults", -1, -1),
			assigned(newTopic(name+"-by-hand", -1, -1), 1, 1)))
		topic := n.mustHave(t, name, 3)
		n.mustHave(t, name+"-defaults", 4)
		n.mustHave(t, name+"-by-hand", 2)
		if topic.Configs["segment.ms"] != " 1000 " && topic.Configs["segment.ms"] != "1000" {
			t.Errorf("configs %v", topic.Configs)
		}
		for i, out := range resp.Topics {
			if got := said(out.ErrorCode, out.ErrorMessage); got != "ok" {
				t.Errorf("version %d, %s: %s", v, out.Topic, got)
			}
			if want := []int32{3, 4, 2}[i]; v >= 5 &&
				(out.NumPartitions != want || out.ReplicationFactor != 1 || len(out.Configs) != publicTopicConfigs(n)) {
				t.Errorf("version %d, %s: %d partitions, factor %d, %d configs", v, out.Topic, out.NumPartitions, out.ReplicationFactor,
					len(out.Configs))
			}
		}
		if v >= 7 && resp.Topics[0].TopicID != topic.ID {
			t.Errorf("id %x, want %x", resp.Topics[0].TopicID, topic.ID)
		}
		if v >= 5 {
			got := map[string]string{}
			for _, c := range resp.Topics[0].Configs {
				got[c.Name] = fmt.Sprint(*c.Value, " ", c.Source, " ", c.ReadOnly, " ", c.IsSensitive)
			}
			if got["segment.ms"] != "1000 1 false false" || got["compression.type"] != "producer 5 false false" {
				t.Errorf("version %d: configs %v", v, got)
			}
		}
	}
}

func TestCreateTopicsRefusesAsKafkaDoes(t *testing.T) {
	n := newNode(t)
	n.topic(t, "here", 1)
	n.topic(t, "a.b", 1)
	w := n.dial(t)
	for _, c := range []struct {
		topic kmsg.CreateTopicsRequestTopic
		want  string
	}{
		{newTopic("here", 1, 1), "TOPIC_ALREADY_EXISTS: Topic 'here' already exists."},
		{newTopic("a_b", 1, 1), "INVALID_TOPIC_EXCEPTION: Topic 'a_b' collides with existing topic: a.b"},
		{newTopic("bad!", 1, 1),
			"INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'bad!' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
		{newTopic("", 1, 1), "INVALID_TOPIC_EXCEPTION: Topic name is invalid: the empty string is not allowed"},
		{newTopic("__cluster_metadata", 1, 1), "INVALID_REQUEST: Creation of internal topic __cluster_metadata is prohibited."},
		{newTopic("x", 1, 1, "no.such", "1"), "INVALID_CONFIG: Unknown topic config name: no.such"},
		{newTopic("x", 1, 1, "segment.ms", "abc"),
			"INVALID_CONFIG: Invalid value abc for configuration segment.ms: Not a number of type LONG"},
		{newTopic("x", 1, 1, "segment.ms", "null"), "INVALID_CONFIG: Null value not supported for topic configs: segment.ms"},
		{newTopic("x", 1, 1, "remote.storage.enable", "true"),
			"INVALID_CONFIG: Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage. Set archive.url on all brokers first; see docs/tiered-storage.md"},
		{newTopic("x", 0, 1), "INVALID_PARTITIONS: Number of partitions was set to an invalid non-positive value."},
		{newTopic("x", 1, 0), "INVALID_REPLICATION_FACTOR: Replication factor must be larger than 0, or -1 to use the default value."},
		{newTopic("x", 1, 9),
			"INVALID_REPLICATION_FACTOR: Unable to replicate the partition 9 time(s): The target replication factor of 9 cannot be reached because only 1 broker(s) are registered"},
		{newTopic("x", 10_001, 1), "POLICY_VIOLATION: Excessively large number of partitions per request. At most 10000 can be created at once."},
		{assigned(newTopic("x", -1, -1), 9),
			"INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 9, but no such broker is registered."},
		{assigned(newTopic("x", 1, -1), 1),
			"INVALID_REQUEST: A manual partition assignment was specified, but numPartitions was not set to -1."},
	} {
		for _, validateOnly := range []bool{true, false} {
			out := ask[*kmsg.CreateTopicsResponse](t, w, 7, createRequest(validateOnly, c.topic)).Topics[0]
			if got := said(out.ErrorCode, out.ErrorMessage); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s: %s\nwant %s", c.topic.Topic, got, c.want)
			}
			if out.Topic != c.topic.Topic || out.NumPartitions != -1 || out.ReplicationFactor != -1 || len(out.Configs) > 0 ||
				out.TopicID != [16]byte{} {
				t.Errorf("%s: what is not made is described: %+v", c.topic.Topic, out)
			}
		}
	}
	if n.image().NumTopics() != 2 {
		t.Errorf("%d topics, want the 2 from before", n.image().NumTopics())
	}
}

func TestCreateTopicsSeesTheRequestAsAWhole(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	resp := ask[*kmsg.CreateTopicsResponse](t, w, 7, createRequest(false,
		newTopic("twice", 1, 1), newTopic("a.b", 1, 1), newTopic("twice", 2, 1), newTopic("a_b", 1, 1), newTopic("fine", 1, 1)))
	var got []string
	for _, out := range resp.Topics {
		got = append(got, out.Topic+" "+said(out.ErrorCode, out.ErrorMessage))
	}
	if diff := cmp.Diff([]string{"twice INVALID_REQUEST: Duplicate topic name.", "a.b ok",
		"a_b INVALID_TOPIC_EXCEPTION: Topic 'a_b' collides with existing topic: a.b", "fine ok"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n.image().Topic("twice") != nil || n.image().NumTopics() != 2 {
		t.Errorf("%d topics", n.image().NumTopics())
	}
	empty := ask[*kmsg.CreateTopicsResponse](t, w, 7, createRequest(false))
	if len(empty.Topics) != 0 {
		t.Errorf("%+v", empty)
	}
}

func TestValidateOnlyChangesNothing(t *testing.T) {
	n := newNode(t)
	n.topic(t, "here", 1)
	w := n.dial(t)
	_, before, err := n.store.Get(t.Context(), metadata.ClusterKey) // the image may not have it yet
	must(t, err)
	made := ask[*kmsg.CreateTopicsResponse](t, w, 7, createRequest(true, newTopic("t", 2, -1))).Topics[0]
	if made.ErrorCode != 0 || made.NumPartitions != 2 || made.ReplicationFactor != 1 || len(made.Configs) == 0 {
		t.Errorf("%+v", made)
	}
	grow := morePartitions("here", 5, nil)
	grow.ValidateOnly = true
	if out := ask[*kmsg.CreatePartitionsResponse](t, w, 3, grow).Topics[0]; out.ErrorCode != 0 {
		t.Errorf("%+v", out)
	}
	alter := incremental(kmsg.ConfigResourceTypeTopic, "here", "segment.ms", kmsg.IncrementalAlterConfigOpSet, "5")
	alter.ValidateOnly = true
	if out := ask[*kmsg.IncrementalAlterConfigsResponse](t, w, 1, alter).Resources[0]; out.ErrorCode != 0 {
		t.Errorf("%+v", out)
	}
	replace := replacing(kmsg.ConfigResourceTypeTopic, "here", "segment.ms", "5")
	replace.ValidateOnly = true
	if out := ask[*kmsg.AlterConfigsResponse](t, w, 2, replace).Resources[0]; out.ErrorCode != 0 {
		t.Errorf("%+v", out)
	}
	_, revision, err := n.store.Get(t.Context(), metadata.ClusterKey)
	must(t, err)
	if revision != before {
		t.Errorf("the metadata went from version %d to %d", before, revision)
	}
}

func TestTimeoutReportsThatTheChangeIsStored(t *testing.T) {
	n := newNode(t)
	old := n.topic(t, "old", 1)
	release, held := make(chan struct{}), make(chan struct{}, 100)
	n.applier.Subscribe("slow", func(_ context.Context, _, _ *metadata.Image, _ *metadata.Delta) error {
		held <- struct{}{}
		<-release
		return nil
	})
	w := n.dial(t)
	create := createRequest(false, newTopic("new", 1, 1), newTopic("old", 1, 1))
	create.TimeoutMillis = 1
	resp := ask[*kmsg.CreateTopicsResponse](t, w, 7, create)
	if got := said(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage); !strings.HasPrefix(got,
		"REQUEST_TIMED_OUT: timed out: the change is made") {
		t.Errorf("create: %s", got)
	}
	if resp.Topics[1].ErrorCode != kerr.TopicAlreadyExists.Code {
		t.Errorf("an error of its own is lost in the timeout: %+v", resp.Topics[1])
	}
	grow := morePartitions("old", 2, nil)
	grow.TimeoutMillis = -1
	if out := ask[*kmsg.CreatePartitionsResponse](t, w, 3, grow).Topics[0]; out.ErrorCode != kerr.RequestTimedOut.Code {
		t.Errorf("create partitions: %+v", out)
	}
	remove := deleteRequest(6, byID(old))
	remove.TimeoutMillis = 0
	if out := ask[*kmsg.DeleteTopicsResponse](t, w, 6, remove).Topics[0]; out.ErrorCode != kerr.RequestTimedOut.Code {
		t.Errorf("delete: %+v", out)
	}
	<-held
	close(release)
	_, revision, err := n.store.Get(t.Context(), metadata.ClusterKey)
	must(t, err)
	must(t, n.applier.WaitFor(t.Context(), revision))
	if n.image().Topic("new") == nil || n.image().Topic("old") != nil {
		t.Error("what timed out was not made after all")
	}
}

// The work after a metadata change, such as the checkpoint of new logs, is done once for all topics
// of a request: one change creates them, one records their directories.
func TestTopicsOfARequestAreMadeAndDeletedTogether(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	before := n.image().Version()
	var list []kmsg.CreateTopicsRequestTopic
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 120_000
	for i := range 50 {
		list = append(list, newTopic(fmt.Sprint("t", i), 1, 1))
		req.TopicNames = append(req.TopicNames, fmt.Sprint("t", i))
	}
	resp := ask[*kmsg.CreateTopicsResponse](t, w, 5, createRequest(false, append(list, newTopic("bad!", 1, 1))...))
	for i, topic := range resp.Topics {
		if (topic.ErrorCode == 0) != (i < 50) {
			t.Errorf("%s: %s", topic.Topic, said(topic.ErrorCode, topic.ErrorMessage))
		}
	}
	n.mustHave(t, "t49", 1)
	must(t, n.applier.WaitFor(t.Context(), before+2)) // a change of its own records their directories
	if made := n.image().Version() - before; made > 2 {
		t.Errorf("%d changes of metadata made the topics", made)
	}
	before = n.image().Version()
	for _, topic := range ask[*kmsg.DeleteTopicsResponse](t, w, 5, req).Topics {
		if topic.ErrorCode != 0 {
			t.Error(said(topic.ErrorCode, topic.ErrorMessage))
		}
	}
	must(t, n.applier.WaitFor(t.Context(), before+2)) // the tombstones are removed after the logs
	if made := n.image().Version() - before; made > 2 {
		t.Errorf("%d changes of metadata deleted the topics", made)
	}
}
