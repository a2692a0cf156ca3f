package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// An API that says nothing about the rights that its requests need is not in the table; if it were,
// its requests would be refused.
func TestAnAPIThatSaysNothingIsRefused(t *testing.T) {
	for _, a := range apis() {
		if !a.declared {
			t.Errorf("%s says nothing about rights", a.Name())
		}
	}
	g := newGuarded(t, quick)
	careless := apiDef[*kmsg.ListGroupsRequest]{API: protocol.API{Key: int16(kmsg.ListGroups), Max: 5},
		handle: inBackground(atGroups, listGroups)}.api()
	g.entries[kmsg.ListGroups] = &careless
	g.rules.Store(denying(everything(), nil))
	req := kmsg.NewPtrListGroupsRequest()
	if resp := ask[*kmsg.ListGroupsResponse](t, g.dial(t), 4, req); resp.ErrorCode != kerr.ClusterAuthorizationFailed.Code {
		t.Errorf("%+v", resp)
	}
}

// Refused parts are answered at their places, whatever the others are and however often a part is
// named, and the text of the error tells nothing.
func TestRefusedPartsStayAtTheirPlaces(t *testing.T) {
	g := newGuarded(t, quick)
	for _, name := range []string{"a", "b", "c"} {
		g.topic(t, name, 1)
	}
	w := g.dial(t)
	g.allow(topicRight(acl.AlterConfigs, "b"), topicRight(acl.AlterConfigs, "none"), topicRight(acl.Delete, "b"))
	alter := kmsg.NewPtrAlterConfigsRequest()
	var want []string
	for _, name := range []string{"a", "b", "c", "none", "a", "hidden", "b"} {
		alter.Resources = append(alter.Resources,
			kmsg.AlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name})
		code := map[string]*kerr.Error{"b": kerr.InvalidRequest, "none": kerr.UnknownTopicOrPartition}[name] // twice, unknown
		if code == nil {
			code = kerr.TopicAuthorizationFailed
		}
		want = append(want, fmt.Sprint(name, code.Code))
	}
	var got []string
	for _, x := range ask[*kmsg.AlterConfigsResponse](t, w, 2, alter).Resources {
		got = append(got, fmt.Sprint(x.ResourceName, x.ErrorCode))
		if x.ErrorCode == kerr.TopicAuthorizationFailed.Code && *x.ErrorMessage != "Topic authorization failed." {
			t.Errorf("%q", *x.ErrorMessage)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TimeoutMillis = 120_000
	remove.TopicNames = []string{"a", "b", "c"}
	got = nil
	for _, x := range ask[*kmsg.DeleteTopicsResponse](t, w, 5, remove).Topics {
		got = append(got, fmt.Sprint(*x.Topic, x.ErrorCode))
	}
	if want := []string{"a29", "b0", "c29"}; !slices.Equal(got, want) || g.image().NumTopics() != 2 {
		t.Errorf("%q, want %q; %d topics are left", got, want, g.image().NumTopics())
	}
}

// Who may not describe a topic does not learn its name from its id.
func TestDeletingTopicsByID(t *testing.T) {
	g := newGuarded(t, quick)
	id := g.topic(t, "t", 1)
	w := g.dial(t)
	deleted := func(rights ...right) (kmsg.DeleteTopicsResponseTopic, bool) {
		g.allow(rights...)
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis, req.Topics = 120_000, []kmsg.DeleteTopicsRequestTopic{{TopicID: id}}
		resp := ask[*kmsg.DeleteTopicsResponse](t, w, 6, req)
		return resp.Topics[0], g.image().TopicByID(id) == nil
	}
	if x, gone := deleted(); gone || x.ErrorCode != kerr.UnknownTopicID.Code || x.Topic != nil || x.TopicID != id {
		t.Errorf("%+v", x)
	}
	if x, gone := deleted(topicRight(acl.Describe, "t")); gone || x.ErrorCode != kerr.TopicAuthorizationFailed.Code || *x.Topic != "t" {
		t.Errorf("%+v", x)
	}
	if x, gone := deleted(topicRight(acl.Delete, "t")); !gone || x.ErrorCode != 0 {
		t.Errorf("%+v", x)
	}
}

// A topic is created on behalf of who may describe it and create it. Others do not learn which
// topics exist.
func TestTopicsAreMadeForWhoMayCreateThem(t *testing.T) {
	g := newGuarded(t, quick)
	g.topic(t, "there", 1)
	w := g.dial(t)
	ofName := func(name string) int16 {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation, req.Topics = true, []kmsg.MetadataRequestTopic{{Topic: &name}}
		return ask[*kmsg.MetadataResponse](t, w, 9, req).Topics[0].ErrorCode
	}
	refused := kerr.TopicAuthorizationFailed.Code
	for i, rights := range [][]right{nil, {topicRight(acl.Create, "new"), topicRight(acl.Create, "there")}, {clusterRight(acl.Create)}} {
		g.allow(rights...)
		if a, b := ofName("new"), ofName("there"); a != refused || b != refused {
			t.Errorf("%d: %d and %d", i, a, b)
		}
	}
	g.allow(topicRight(acl.Describe, "new"))
	if code := ofName("new"); code != refused || g.image().NumTopics() != 1 {
		t.Errorf("%d; %d topics", code, g.image().NumTopics())
	}
	g.allow(topicRight(acl.Describe, "new"), clusterRight(acl.Create))
	if code := ofName("new"); code != kerr.UnknownTopicOrPartition.Code {
		t.Error(code)
	}
	eventually(t, "the topic is made", func() bool { return ofName("new") == 0 })
}

// Names that collide are refused without the name of a topic that the client may not describe.
func TestACollisionNamesNoHiddenTopic(t *testing.T) {
	g := newGuarded(t, quick)
	g.topic(t, "a.b", 1)
	w := g.dial(t)
	text := func(rights ...right) string {
		g.allow(append(rights, clusterRight(acl.Create))...)
		resp := ask[*kmsg.CreateTopicsResponse](t, w, 7, createRequest(false, newTopic("a_b", 1, 1)))
		if resp.Topics[0].ErrorCode != kerr.InvalidTopicException.Code {
			t.Errorf("%+v", resp)
		}
		return *resp.Topics[0].ErrorMessage
	}
	if got := text(); got != "Topic 'a_b' collides with an existing topic." {
		t.Error(got)
	}
	if got := text(topicRight(acl.Describe, "a.b")); !strings.HasSuffix(got, "a.b") {
		t.Error(got)
	}
}

// The operations that answers list are those that the rules allow.
func TestAuthorizedOperationsAreTrue(t *testing.T) {
	g := newGuarded(t, quick)
	g.topic(t, "t", 1)
	g.coordinates(t)
	w := g.dial(t)
	commit(t, w, 9, "g", [16]byte{}, "t", 0)
	operationsOf := func() [4]int32 {
		meta := kmsg.NewPtrMetadataRequest()
		meta.IncludeClusterAuthorizedOperations, meta.IncludeTopicAuthorizedOperations = true, true
		meta.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("t")}}
		m := ask[*kmsg.MetadataResponse](t, w, 9, meta)
		cluster := kmsg.NewPtrDescribeClusterRequest()
		cluster.IncludeClusterAuthorizedOperations = true
		groups := kmsg.NewPtrDescribeGroupsRequest()
		groups.Groups, groups.IncludeAuthorizedOperations = []string{"g"}, true
		return [4]int32{m.AuthorizedOperations, m.Topics[0].AuthorizedOperations,
			ask[*kmsg.DescribeClusterResponse](t, w, 1, cluster).ClusterAuthorizedOperations,
			ask[*kmsg.DescribeGroupsResponse](t, w, 5, groups).Groups[0].AuthorizedOperations}
	}
	check := func(what string, cluster, topic, group int32) {
		t.Helper()
		if got := operationsOf(); got != [4]int32{cluster, topic, cluster, group} {
			t.Errorf("%s: %d", what, got)
		}
	}
	check("no authorization", 8096, 3576, 3400) // as Kafka answers a super user
	g.rules.Store(acl.Compile(nil, acl.Options{SuperUsers: []string{network.Anonymous}}))
	check("a super user", 8096, 3576, 3400)
	g.allow()
	check("no rights", 0, opsNotAsked, opsNotAsked)
	g.allow(clusterRight(acl.Alter), topicRight(acl.Write, "t"), groupRight(acl.Read, "g"))
	check("some rights", int32(acl.Of(acl.Alter, acl.Describe)), int32(acl.Of(acl.Write, acl.Describe)),
		int32(acl.Of(acl.Read, acl.Describe)))
	g.allow(clusterRight(acl.Create))
	check("a cluster that may not be described", 0, opsNotAsked, opsNotAsked)
}

// What is in internal topics is what the broker relies on: no rule lets a client change it.
func TestInternalTopicsAreChangedBySuperUsersOnly(t *testing.T) {
	g := newGuarded(t, quick)
	g.coordinates(t)
	w := g.dial(t)
	removed := func() int16 {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Topics = []kmsg.DeleteRecordsRequestTopic{
			{Topic: "__consumer_offsets", Partitions: make([]kmsg.DeleteRecordsRequestTopicPartition, 1)},
		}
		return ask[*kmsg.DeleteRecordsResponse](t, w, 2, req).Topics[0].Partitions[0].ErrorCode
	}
	g.rules.Store(denying(everything(), nil))
	if code := removed(); code != kerr.TopicAuthorizationFailed.Code {
		t.Error(code)
	}
	g.rules.Store(acl.Compile(nil, acl.Options{SuperUsers: []string{network.Anonymous}}))
	if code := removed(); code != kerr.InvalidTopicException.Code {
		t.Error(code)
	}
}

// Without an answer, a producer learns from the end of its connection that it may not write.
func TestARefusedProduceWithoutAnswerEndsItsConnection(t *testing.T) {
	g := newGuarded(t)
	g.topic(t, "t", 1)
	g.allow(topicRight(acl.Describe, "t"))
	w := g.dial(t)
	req := produceRequest("t", [16]byte{}, 0, batchOf(t, record.BatchOptions{}, 1, "v"))
	req.SetVersion(9)
	must(t, w.send(req))
	if _, err := w.body(); err == nil {
		t.Error("the connection has an answer")
	}
}

// A page of topics names only topics that the client sees, also in its cursor.
func TestPagesCountVisibleTopicsOnly(t *testing.T) {
	g := newGuarded(t)
	for _, name := range []string{"a", "b", "c"} {
		g.topic(t, name, 1)
	}
	w := g.dial(t)
	page := func(from string) *kmsg.DescribeTopicPartitionsResponse {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = 1
		if from != "" {
			req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: from}
		}
		return ask[*kmsg.DescribeTopicPartitionsResponse](t, w, 0, req)
	}
	g.allow(topicRight(acl.Describe, "a"), topicRight(acl.Describe, "c"))
	first := page("")
	if len(first.Topics) != 1 || *first.Topics[0].Topic != "a" || first.NextCursor == nil || first.NextCursor.Topic != "c" {
		t.Fatalf("%+v", first)
	}
	if last := page("b"); len(last.Topics) != 1 || *last.Topics[0].Topic != "c" || last.NextCursor != nil {
		t.Errorf("%+v", last)
	}
	g.allow(topicRight(acl.Describe, "a"))
	if only := page(""); len(only.Topics) != 1 || only.NextCursor != nil {
		t.Errorf("%+v", only)
	}
}
