package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
)

// An entry of a few bytes may have a large answer: repeating it does not repeat the answer.
func TestRepeatedEntriesAreAnsweredOnce(t *testing.T) {
	n := newNode(t, quick)
	id := n.topic(t, "t", 1)
	n.coordinates(t)
	w := n.dial(t)
	commit(t, w, 9, "g", id, "t", 0)
	ids := []string{"g", "none", "g", "", "none", "g"}
	once := []string{"g", "none", ""}
	var got []string
	expect := func(what string) {
		t.Helper()
		if !slices.Equal(got, once) {
			t.Errorf("%s: %q, want %q", what, got, once)
		}
		got = nil
	}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = ids
	for _, g := range ask[*kmsg.DescribeGroupsResponse](t, w, 6, describe).Groups {
		got = append(got, g.Group)
	}
	expect("DescribeGroups")
	consumers := kmsg.NewPtrConsumerGroupDescribeRequest()
	consumers.Groups = ids
	for _, g := range ask[*kmsg.ConsumerGroupDescribeResponse](t, w, 1, consumers).Groups {
		got = append(got, g.Group)
		if g.Group == "" && g.ErrorCode != kerr.InvalidGroupID.Code {
			t.Error(g.ErrorCode)
		}
	}
	expect("ConsumerGroupDescribe")
	offsets := kmsg.NewPtrOffsetFetchRequest()
	for _, g := range ids {
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group = g
		offsets.Groups = append(offsets.Groups, one)
	}
	for range 3 { // apart from those that ask for all, and each partition once
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group, one.Topics = "g", []kmsg.OffsetFetchRequestGroupTopic{some(id, "t", 0, 0), some(id, "t", 0, 1)}
		offsets.Groups = append(offsets.Groups, one)
	}
	groups := ask[*kmsg.OffsetFetchResponse](t, w, 9, offsets).Groups
	if last := groups[len(groups)-1]; last.Group != "g" || len(last.Topics) != 1 || len(last.Topics[0].Partitions) != 2 {
		t.Errorf("%+v", last)
	}
	for _, g := range groups[:len(groups)-1] {
		got = append(got, g.Group)
	}
	expect("OffsetFetch")
	drop := kmsg.NewPtrDeleteGroupsRequest()
	drop.Groups = ids
	for i, g := range ask[*kmsg.DeleteGroupsResponse](t, w, 2, drop).Groups {
		got = append(got, g.Group)
		if (g.ErrorCode == 0) != (i == 0) {
			t.Errorf("%s: %d", g.Group, g.ErrorCode)
		}
	}
	expect("DeleteGroups")

	configs := kmsg.NewPtrDescribeConfigsRequest()
	for i := range 100 {
		x := kmsg.NewDescribeConfigsRequestResource()
		x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
		if i < 50 {
			x.ConfigNames = []string{"segment.ms", []string{"segment.bytes", "cleanup.policy"}[i%2]}
		}
		if i%10 == 7 {
			x.ResourceType, x.ResourceName, x.ConfigNames = kmsg.ConfigResourceTypeBroker, fmt.Sprintf("%0*d", i, 1),
				[]string{"num.partitions"}
		}
		configs.Resources = append(configs.Resources, x)
		list := ask[*kmsg.DescribeConfigsResponse](t, w, 4, configs).Resources
		if of := len(list[0].Configs); i == 0 && of != 2 || i > 0 && i < 50 && of != 3 || i >= 50 && of < 20 {
			t.Fatalf("%d entries: %d configs", i+1, of)
		}
		if len(list) > 2 || len(list) == 2 && len(list[1].Configs) != 1 {
			t.Fatalf("%d entries: %d resources", i+1, len(list))
		}
	}
}

// An entry that only asks whether a topic could be created has a kilobyte of configs.
func TestFewCreatedTopicsAreAnsweredWithConfigs(t *testing.T) {
	n := newNode(t, quick)
	var topics []kmsg.CreateTopicsRequestTopic
	for i := range maxCreatedConfigs + 2 {
		topics = append(topics, newTopic(fmt.Sprint(i), 1, 1))
	}
	for i, got := range ask[*kmsg.CreateTopicsResponse](t, n.dial(t), 7, createRequest(true, topics...)).Topics {
		if few := i < maxCreatedConfigs; got.ErrorCode != 0 || got.NumPartitions != 1 || (len(got.Configs) > 0) != few ||
			(got.ConfigErrorCode == 0) != few {
			t.Fatalf("%d: %+v", i, got)
		}
	}
}

// The configs of groups that do not exist may be more than what the broker has.
func TestDescribedConfigsAreBounded(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) { o.broker = func(opt *Options) { opt.ParkedBytes = 100 << 10 } })
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeDocumentation = true
	for i := range 1000 {
		x := kmsg.NewDescribeConfigsRequestResource()
		x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeGroupConfig, fmt.Sprint(i)
		req.Resources = append(req.Resources, x)
	}
	resp := ask[*kmsg.DescribeConfigsResponse](t, n.dial(t), 4, req)
	first, last := resp.Resources[0], resp.Resources[len(resp.Resources)-1]
	if first.ErrorCode != 0 || len(first.Configs) == 0 || last.ErrorCode != kerr.InvalidRequest.Code || len(last.Configs) > 0 {
		t.Errorf("%+v, %+v", first, last)
	}
	if size, most := len(resp.AppendTo(nil)), 400<<10; size > most { // the last of them passes the bound, and errors have texts
		t.Errorf("%d bytes, want %d at most", size, most)
	}
}

// As in Kafka 4.3, a missing group is reported before missing partitions.
func TestOffsetDeleteAsksForTheGroupFirst(t *testing.T) {
	n := newNode(t, quick)
	id := n.topic(t, "t", 1)
	n.coordinates(t)
	w := n.dial(t)
	commit(t, w, 9, "g", id, "t", 0)
	req := kmsg.NewPtrOffsetDeleteRequest()
	for _, topics := range [][]kmsg.OffsetDeleteRequestTopic{nil,
		{{Topic: "none", Partitions: make([]kmsg.OffsetDeleteRequestTopicPartition, 1)}}} {
		req.Topics = topics
		for group, code := range map[string]int16{"": kerr.InvalidGroupID.Code, "unknown": kerr.GroupIDNotFound.Code, "g": 0} {
			req.Group = group
			resp := ask[*kmsg.OffsetDeleteResponse](t, w, 0, req)
			if resp.ErrorCode != code || code == 0 && len(resp.Topics) != len(topics) || code != 0 && len(resp.Topics) > 0 {
				t.Errorf("%q: %+v", group, resp)
			}
		}
	}
}

// The older encoding has 16 bits for the length of a text.
func TestErrorMessagesAreBounded(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	long := strings.Repeat("ü", 16_000)
	resp := ask[*kmsg.CreateTopicsResponse](t, w, 4, createRequest(false, newTopic(long, 1, 1)))
	if len(resp.Topics) != 1 || resp.Topics[0].Topic != long || resp.Topics[0].ErrorCode != kerr.InvalidTopicException.Code {
		t.Fatalf("%d topics", len(resp.Topics))
	}
	if msg := *resp.Topics[0].ErrorMessage; len(msg) > maxMessage || !utf8.ValidString(msg) ||
		!strings.HasPrefix(msg, "Topic name is invalid") {
		t.Errorf("%d bytes: %.100q", len(msg), msg)
	}
	produce := kmsg.NewPtrProduceRequest()
	produce.Acks, produce.TimeoutMillis = 1, 1000
	produce.Topics = []kmsg.ProduceRequestTopic{{Topic: strings.Repeat("\x00", 30_000),
		Partitions: make([]kmsg.ProduceRequestTopicPartition, 1)}}
	if p := ask[*kmsg.ProduceResponse](t, w, 8, produce).Topics[0].Partitions[0]; p.ErrorCode != kerr.UnknownTopicOrPartition.Code ||
		len(*p.ErrorMessage) > maxMessage {
		t.Errorf("%d, %d bytes", p.ErrorCode, len(*p.ErrorMessage))
	}
}

// The number of its partitions bounds a session's memory, so their names must be valid for topics.
func TestSessionsRefuseInvalidTopicNames(t *testing.T) {
	now := time.Now()
	c := newSessions(10, defaultSessionBytes)
	parts := asked(2)
	parts[1].partitionRequest.topic.name = strings.Repeat("x", controller.MaxNameLength)
	s := c.create(owner{}, false, parts, now)
	if s == nil {
		t.Fatal("no session")
	}
	parts[1].partitionRequest.topic.name += "x"
	if c.create(owner{}, false, parts, now) != nil {
		t.Error("a session with a name that is too long")
	}
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.SessionID, req.SessionEpoch = 12, s.id, 1
	req.Topics = []kmsg.FetchRequestTopic{{Topic: parts[1].partitionRequest.topic.name,
		Partitions: make([]kmsg.FetchRequestTopicPartition, 1)}}
	var got fetchRead
	if use := c.begin(req, owner{}, &got, now); use.err != nil || use.members != 3 || s.elem != nil {
		t.Errorf("%v, %d parts; the session goes on: %t", use.err, use.members, s.elem != nil)
	}
}

// A request that can't get a session evicts none.
func TestTooLargeSessionEvictsNone(t *testing.T) {
	now := time.Now()
	c := newSessions(10, defaultSessionBytes)
	for range 5 {
		c.create(owner{}, true, asked(10), now)
	}
	if c.create(owner{}, true, asked(c.limit+1), now.Add(2*evictAfter)) != nil || len(c.byID) != 5 {
		t.Errorf("%d sessions are left", len(c.byID))
	}
}

func TestDistinct(t *testing.T) {
	list := []string{"b", "a", "b", "c", "a"}
	if got := fmt.Sprint(distinct(list)); got != "[b a c]" || fmt.Sprint(list) != "[b a b c a]" {
		t.Error(got, list)
	}
}

// A broker with 64 MiB refuses a request for 100,000 topics.
func TestRequestSizeIsBoundedByMemory(t *testing.T) {
	for most, fits := range map[int64]map[int]bool{0: {20_000: true, 100_000: true}, 4 << 20: {20_000: true, 100_000: false}} {
		table, err := Table(most)
		must(t, err)
		for topics, want := range fits {
			req := kmsg.NewPtrMetadataRequest()
			req.Version = 9
			for i := range topics {
				topic := kmsg.NewMetadataRequestTopic()
				topic.Topic = kmsg.StringPtr(fmt.Sprintf("absent-from-here-%06d", i))
				req.Topics = append(req.Topics, topic)
			}
			if err := table.Check(req.Key(), req.Version, req.AppendTo(nil)); (err == nil) != want {
				t.Errorf("%d topics with %d bytes: %v", topics, most, err)
			}
		}
	}
}

// A request may name tens of thousands of groups, as monitoring tools do, or hundreds of thousands
// of partitions, but not hundreds of thousands of groups.
func TestOffsetFetchIsBounded(t *testing.T) {
	table, err := Table(0)
	must(t, err)
	for name, c := range map[string]struct {
		groups, partitions int
		ok                 bool
	}{"80,000 groups": {80_000, 0, true}, "300,000 partitions": {1, 300_000, true}, "400,000 groups": {400_000, 0, false}} {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version = 8
		for i := range c.groups {
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = fmt.Sprintf("a-group-with-a-name-%06d", i)
			if c.partitions > 0 {
				g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: make([]int32, c.partitions)}}
			}
			req.Groups = append(req.Groups, g)
		}
		if err := table.Check(req.Key(), req.Version, req.AppendTo(nil)); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
