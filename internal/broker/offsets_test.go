package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/view"
)

// commit commits offsets outside a group's membership: "t 0 5" and so on.
func commit(t testing.TB, w *wire, version int16, group string, id [16]byte, topic string, partitions ...int32) []int16 {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	one := kmsg.NewOffsetCommitRequestTopic()
	one.Topic, one.TopicID = topic, id
	for _, i := range partitions {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = i, int64(10*i+5), kmsg.StringPtr("note")
		one.Partitions = append(one.Partitions, p)
	}
	req.Topics = append(req.Topics, one)
	resp := ask[*kmsg.OffsetCommitResponse](t, w, version, req)
	var codes []int16
	for i, p := range resp.Topics[0].Partitions {
		if p.Partition != partitions[i] || version < 10 && resp.Topics[0].Topic != topic || version >= 10 && resp.Topics[0].TopicID != id {
			t.Errorf("version %d: %+v", version, resp.Topics[0])
		}
		codes = append(codes, p.ErrorCode)
	}
	return codes
}

// fetched returns the committed offsets, "t/0=5 note" and so on. topics nil: all.
func fetched(t testing.TB, w *wire, version int16, group string, topics []kmsg.OffsetFetchRequestGroupTopic) string {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group, one.Topics = group, topics
	req.Group, req.Groups = group, []kmsg.OffsetFetchRequestGroup{one}
	if topics != nil {
		req.Topics = []kmsg.OffsetFetchRequestTopic{}
	}
	for _, x := range topics {
		req.Topics = append(req.Topics, kmsg.OffsetFetchRequestTopic{Topic: x.Topic, Partitions: x.Partitions})
	}
	resp := ask[*kmsg.OffsetFetchResponse](t, w, version, req)
	var list []string
	say := func(topic string, partition int32, offset int64, note *string, code int16) {
		s := fmt.Sprintf("%s/%d=%d %s", topic, partition, offset, *note)
		if code != 0 {
			s = fmt.Sprintf("%s/%d: %v", topic, partition, kerr.ErrorForCode(code))
		}
		list = append(list, strings.TrimSpace(s))
	}
	for _, x := range resp.Topics {
		for _, p := range x.Partitions {
			say(x.Topic, p.Partition, p.Offset, p.Metadata, p.ErrorCode)
		}
	}
	for _, g := range resp.Groups {
		for _, x := range g.Topics {
			if version >= 10 {
				x.Topic = fmt.Sprintf("%x", x.TopicID[:2])
			}
			for _, p := range x.Partitions {
				say(x.Topic, p.Partition, p.Offset, p.Metadata, p.ErrorCode)
			}
		}
	}
	return strings.Join(list, ", ")
}

// some are topics of a request, with their ids for requests by id.
func some(id [16]byte, name string, partitions ...int32) kmsg.OffsetFetchRequestGroupTopic {
	one := kmsg.NewOffsetFetchRequestGroupTopic()
	one.Topic, one.TopicID, one.Partitions = name, id, partitions
	return one
}

func TestOffsetsOfPartitionsThatDoNotExistAreRefused(t *testing.T) {
	n := newNode(t, quick)
	id := n.topic(t, "t", 2)
	n.coordinates(t)
	w := n.dial(t)
	unknown := kerr.UnknownTopicOrPartition.Code
	for v := int16(2); v <= 10; v++ {
		if got := fmt.Sprint(commit(t, w, v, "g", id, "t", 7, 0, -1, 1)); got != fmt.Sprint([]int16{unknown, 0, unknown, 0}) {
			t.Errorf("version %d: %s", v, got)
		}
		want := unknown
		if v >= 10 {
			want = kerr.UnknownTopicID.Code
		}
		if got := commit(t, w, v, "g", [16]byte{9}, "none", 0); got[0] != want {
			t.Errorf("version %d: %d", v, got)
		}
	}
}

func TestEveryVersionFetchesWhatIsCommitted(t *testing.T) {
	n := newNode(t, quick)
	id := n.topic(t, "t", 3)
	n.coordinates(t)
	w := n.dial(t)
	commit(t, w, 10, "g", id, "t", 0, 1)
	for v := int16(1); v <= 10; v++ {
		name, gone := "t", "none/0=-1"
		if v >= 10 {
			name, gone = fmt.Sprintf("%x", id[:2]), "0900/0: UNKNOWN_TOPIC_ID: This server does not host this topic ID."
		}
		asked := []kmsg.OffsetFetchRequestGroupTopic{some(id, "t", 2, 1), some([16]byte{9}, "none", 0)}
		if got, want := fetched(t, w, v, "g", asked), fmt.Sprintf("%s/2=-1, %s/1=15 note, %s", name, name, gone); got != want {
			t.Errorf("version %d: %s, want %s", v, got, want)
		}
		if got := fetched(t, w, v, "g", []kmsg.OffsetFetchRequestGroupTopic{}); got != "" {
			t.Errorf("version %d, nothing asked for: %s", v, got)
		}
		if v < 2 {
			continue
		}
		if got, want := fetched(t, w, v, "g", nil), fmt.Sprintf("%s/0=5 note, %s/1=15 note", name, name); got != want {
			t.Errorf("version %d, everything: %s, want %s", v, got, want)
		}
		if got := fetched(t, w, v, "other", nil); got != "" {
			t.Errorf("version %d, a group that is not there: %s", v, got)
		}
	}
}

// Offsets that were committed for a deleted topic do not apply to the next one of its name.
func TestOffsetsGoWithTheirTopic(t *testing.T) {
	n := newNode(t, quick)
	old := n.topic(t, "t", 1)
	n.coordinates(t)
	w := n.dial(t)
	commit(t, w, 9, "g", old, "t", 0)
	commit(t, w, 9, "h", old, "t", 0)
	revision, err := n.control.DeleteTopic(t.Context(), old)
	must(t, err)
	must(t, n.applier.WaitFor(t.Context(), revision))
	for _, g := range []string{"g", "h"} {
		if got := fetched(t, w, 9, g, nil); got != "" {
			t.Error(got)
		}
	}
	id := n.topic(t, "t", 1)
	if got := fetched(t, w, 9, "g", []kmsg.OffsetFetchRequestGroupTopic{some(id, "t", 0)}); got != "t/0=-1" {
		t.Error(got)
	}
}

func TestOffsetDelete(t *testing.T) {
	n := newNode(t, quick)
	id := n.topic(t, "t", 3)
	n.coordinates(t)
	w := n.dial(t)
	commit(t, w, 9, "g", id, "t", 0, 1, 2)
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "g"
	for _, topic := range []string{"none", "t"} {
		one := kmsg.OffsetDeleteRequestTopic{Topic: topic}
		for _, p := range []int32{1, 5, 2} {
			one.Partitions = append(one.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
		}
		req.Topics = append(req.Topics, one)
	}
	resp := ask[*kmsg.OffsetDeleteResponse](t, w, 0, req)
	var got []string
	for _, x := range resp.Topics {
		for _, p := range x.Partitions {
			got = append(got, fmt.Sprint(x.Topic, p.Partition, " ", p.ErrorCode))
		}
	}
	if s := strings.Join(got, ", "); s != "none1 3, none5 3, none2 3, t1 0, t5 3, t2 0" {
		t.Error(s)
	}
	if got := fetched(t, w, 9, "g", nil); got != "t/0=5 note" {
		t.Error(got)
	}
	req.Group = "unknown"
	if resp := ask[*kmsg.OffsetDeleteResponse](t, w, 0, req); resp.ErrorCode != kerr.GroupIDNotFound.Code || len(resp.Topics) > 0 {
		t.Errorf("%+v", resp)
	}
}

// Many groups in one request belong to several shards, and are answered in order.
func TestGroupsOfSeveralShardsInOneRequest(t *testing.T) {
	n := newNode(t, quick)
	id := n.topic(t, "t", 1)
	n.coordinates(t)
	w := n.dial(t)
	var ids []string
	for i := range 20 {
		g := fmt.Sprint("g", i)
		ids = append(ids, g)
		if i%2 == 0 {
			commit(t, w, 9, g, id, "t", 0)
		}
	}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups, describe.IncludeAuthorizedOperations = ids, true
	for i, g := range ask[*kmsg.DescribeGroupsResponse](t, w, 6, describe).Groups {
		state, code, ops := "Empty", int16(0), int32(3400)
		if i%2 == 1 {
			state, code, ops = "Dead", kerr.GroupIDNotFound.Code, opsNotAsked
		}
		if g.Group != ids[i] || g.State != state || g.ErrorCode != code || g.AuthorizedOperations != ops {
			t.Errorf("%d: %+v", i, g)
		}
	}
	consumers := kmsg.NewPtrConsumerGroupDescribeRequest()
	consumers.Groups = ids
	for i, g := range ask[*kmsg.ConsumerGroupDescribeResponse](t, w, 1, consumers).Groups {
		if g.Group != ids[i] || g.ErrorCode != kerr.GroupIDNotFound.Code {
			t.Errorf("%d: %+v", i, g)
		}
	}
	list := kmsg.NewPtrListGroupsRequest()
	if got := ask[*kmsg.ListGroupsResponse](t, w, 5, list).Groups; len(got) != 10 {
		t.Errorf("%d groups are listed", len(got))
	}
	fetch := kmsg.NewPtrOffsetFetchRequest()
	for _, g := range ids {
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group = g
		fetch.Groups = append(fetch.Groups, one)
	}
	for i, g := range ask[*kmsg.OffsetFetchResponse](t, w, 8, fetch).Groups {
		if g.Group != ids[i] || len(g.Topics) != (i+1)%2 {
			t.Errorf("%d: %+v", i, g)
		}
	}
	drop := kmsg.NewPtrDeleteGroupsRequest()
	drop.Groups = ids
	for i, g := range ask[*kmsg.DeleteGroupsResponse](t, w, 2, drop).Groups {
		if g.Group != ids[i] || (g.ErrorCode == 0) != (i%2 == 0) {
			t.Errorf("%d: %+v", i, g)
		}
	}
	if got := ask[*kmsg.ListGroupsResponse](t, w, 5, list).Groups; len(got) != 0 {
		t.Errorf("%d groups are left", len(got))
	}
}

func TestTheTopicOfGroupsIsTheBrokersOwn(t *testing.T) {
	n := newNode(t, quick)
	w := n.dial(t)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	if resp := ask[*kmsg.FindCoordinatorResponse](t, w, 1, find); resp.ErrorCode != kerr.CoordinatorNotAvailable.Code ||
		resp.NodeID != -1 || resp.ErrorMessage == nil {
		t.Errorf("%+v", resp)
	}
	n.coordinates(t)
	if resp := ask[*kmsg.FindCoordinatorResponse](t, w, 3, find); resp.ErrorCode != 0 || resp.NodeID != 1 ||
		fmt.Sprintf("%s:%d", resp.Host, resp.Port) != n.addr {
		t.Errorf("%+v", resp)
	}
	topic := n.image().Topic(service.OffsetsTopic)
	for i, p := range topic.Partitions.All() {
		if len(p.Replicas) != 1 {
			t.Errorf("partition %d has %d replicas on one broker", i, len(p.Replicas))
		}
	}
	more := kmsg.NewPtrCreatePartitionsRequest()
	more.TimeoutMillis, more.Topics = 1000, []kmsg.CreatePartitionsRequestTopic{{Topic: service.OffsetsTopic, Count: 10}}
	if resp := ask[*kmsg.CreatePartitionsResponse](t, w, 3, more); resp.Topics[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("%+v", resp)
	}
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic,
		ResourceName: service.OffsetsTopic,
		Configs:      []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "segment.ms", Value: kmsg.StringPtr("60000")}}}}
	if resp := ask[*kmsg.IncrementalAlterConfigsResponse](t, w, 1, alter); resp.Resources[0].ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
}

// However many groups one request names, each event names a thousand at most, and there are as many
// events waiting as shards.
func TestManyGroupsAreFetchedTogether(t *testing.T) {
	n := newNode(t, quick)
	id := n.topic(t, "t", 1)
	n.coordinates(t)
	w := n.dial(t)
	commit(t, w, 9, "g7", id, "t", 0)
	events := func() (all int64) {
		for _, s := range n.groups.Stats() {
			all += s.Events
		}
		return all
	}
	const groups = 10_000
	for _, version := range []int16{8, 10} {
		req := kmsg.NewPtrOffsetFetchRequest()
		for i := range groups {
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = fmt.Sprint("g", i)
			g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: id, Partitions: []int32{0}}}
			req.Groups = append(req.Groups, g)
		}
		before := events()
		resp := ask[*kmsg.OffsetFetchResponse](t, w, version, req)
		if asked, most := events()-before, int64(groups/shardPart+len(n.groups.Stats())); asked > most {
			t.Errorf("version %d: %d events, want at most %d", version, asked, most)
		}
		for i, g := range resp.Groups {
			want := int64(-1)
			if i == 7 {
				want = 5
			}
			if g.Group != req.Groups[i].Group || g.ErrorCode != 0 || g.Topics[0].Partitions[0].Offset != want {
				t.Fatalf("version %d, group %d: %+v", version, i, g)
			}
		}
	}
}

// No client creates or weakens the topic of committed offsets: neither before nor after the broker
// creates it, by neither request, nor by leaving out a config.
func TestNoClientWeakensTheGroupsTopic(t *testing.T) {
	n := newNode(t, quick)
	w := n.dial(t)
	made := ask[*kmsg.CreateTopicsResponse](t, w, 7, createRequest(false, newTopic(service.OffsetsTopic, 1, 1))).Topics[0]
	if made.ErrorCode != kerr.InvalidRequest.Code || !strings.Contains(*made.ErrorMessage, "the broker creates it") ||
		n.image().Topic(service.OffsetsTopic) != nil {
		t.Errorf("create: %s", said(made.ErrorCode, made.ErrorMessage))
	}
	n.coordinates(t)
	want := n.image().Topic(service.OffsetsTopic).Configs
	incremental := func(op kmsg.IncrementalAlterConfigOp, name, value string) (int16, *string) {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic,
			ResourceName: service.OffsetsTopic,
			Configs:      []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Op: op, Value: &value}}}}
		resp := ask[*kmsg.IncrementalAlterConfigsResponse](t, w, 1, req).Resources[0]
		return resp.ErrorCode, resp.ErrorMessage
	}
	for _, c := range []struct {
		op          kmsg.IncrementalAlterConfigOp
		name, value string
	}{
		{kmsg.IncrementalAlterConfigOpSet, "cleanup.policy", "delete"},
		{kmsg.IncrementalAlterConfigOpAppend, "cleanup.policy", "delete"},
		{kmsg.IncrementalAlterConfigOpDelete, "cleanup.policy", ""},
		{kmsg.IncrementalAlterConfigOpSet, "chronik.durability.profile", "os"},
		{kmsg.IncrementalAlterConfigOpDelete, "chronik.durability.profile", ""},
		{kmsg.IncrementalAlterConfigOpSet, "unclean.leader.election.enable", "true"},
	} {
		if code, msg := incremental(c.op, c.name, c.value); code != kerr.InvalidConfig.Code || !strings.Contains(*msg, "internal topic") {
			t.Errorf("%+v: %s", c, said(code, msg))
		}
	}
	replace := kmsg.NewPtrAlterConfigsRequest()
	replace.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: service.OffsetsTopic,
		Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "segment.ms", Value: kmsg.StringPtr("60000")}}}}
	if resp := ask[*kmsg.AlterConfigsResponse](t, w, 2, replace).Resources[0]; resp.ErrorCode != kerr.InvalidConfig.Code {
		t.Errorf("replace: %+v", resp)
	}
	if got := n.image().Topic(service.OffsetsTopic).Configs; !maps.Equal(got, want) {
		t.Errorf("%v, was %v", got, want)
	}
}

func TestThereAreNoOtherCoordinators(t *testing.T) {
	n := newNode(t, quick)
	w := n.dial(t)
	for _, c := range []struct {
		kind    int8
		version int16
		want    *kerr.Error
	}{
		{shareCoordinator, 6, kerr.InvalidRequest}, {shareCoordinator, 5, kerr.InvalidRequest}, {7, 4, kerr.InvalidRequest},
	} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = c.kind, "x", []string{"x"}
		resp := ask[*kmsg.FindCoordinatorResponse](t, w, c.version, req)
		got := resp.ErrorCode
		if c.version >= 4 {
			got = resp.Coordinators[0].ErrorCode
		}
		if got != c.want.Code {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// The lag of a group, from its committed offset or the log start to the log end, is known without
// asking a client.
func TestLagIsKnown(t *testing.T) {
	n := newNode(t, quick)
	id := n.topic(t, "t", 2)
	n.coordinates(t)
	n.fill(t, "t", 20, 2)
	w := n.dial(t)
	commit(t, w, 9, "g", id, "t", 0, 1) // at 5 and 15, of 10 each
	commit(t, w, 9, "h", id, "t", 0)
	c := n.groups.Overview(t.Context())
	slices.SortFunc(c.List, func(a, b view.Group) int { return strings.Compare(a.ID, b.ID) })
	for i := range c.List {
		slices.SortFunc(c.List[i].Offsets, func(a, b view.GroupOffset) int { return int(a.Partition - b.Partition) })
	}
	zero := view.GroupOffset{Topic: "t", Committed: 5, End: 10, Lag: 5}
	want := []view.Group{{ID: "g", Kind: "classic", State: "Empty", Lag: 5,
		Offsets: []view.GroupOffset{zero, {Topic: "t", Partition: 1, Committed: 15, End: 10}}},
		{ID: "h", Kind: "classic", State: "Empty", Lag: 5, Offsets: []view.GroupOffset{zero}}}
	if diff := cmp.Diff(want, c.List); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := lows(ask[*kmsg.DeleteRecordsResponse](t, w, 2, deleting("t", 0, 8))); got[0] != "t-0 8" {
		t.Fatal(got)
	}
	for _, g := range n.groups.Overview(t.Context()).List {
		if g.Lag != 2 { // no record is left of those from 5 to 7
			t.Errorf("%+v", g)
		}
	}
	if g, _, err := n.groups.Describe(t.Context(), "g"); err != nil || g.Lag != 2 {
		t.Errorf("%+v, %v", g, err)
	}
}
