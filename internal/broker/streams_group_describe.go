package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// StreamsGroupDescribe (key 89), version 0: streams groups (KIP-1071).
func streamsGroupDescribeAPI() api {
	return namedGroupsAPI(kmsg.StreamsGroupDescribe, 0, acl.Describe,
		func(req *kmsg.StreamsGroupDescribeRequest) *[]string { return &req.Groups }, streamsGroupDescribe)
}

func streamsGroupDescribe(c call, req *kmsg.StreamsGroupDescribeRequest) {
	type described = kmsg.StreamsGroupDescribeResponseGroup
	event := func(ids []string) any { return group.DescribeStreams{Groups: ids} }
	fields := func(g *described) groupFields { return groupFields{&g.Group, &g.ErrorCode, &g.AuthorizedOperations} }
	describeEach(c, req.Groups, req.IncludeAuthorizedOperations, event, kmsg.NewStreamsGroupDescribeResponseGroup, fields,
		streamsTopics,
		func(list []described) kmsg.Response {
			resp := respondTo(c.r, kmsg.NewPtrStreamsGroupDescribeResponse())
			resp.Groups = list
			return resp
		})
}

// streamsTopics visits the topics that the description of a group names.
func streamsTopics(g *kmsg.StreamsGroupDescribeResponseGroup, visit func(string)) {
	if g.Topology == nil {
		return
	}
	for i := range g.Topology.Subtopologies {
		s := &g.Topology.Subtopologies[i]
		for _, name := range slices.Concat(s.SourceTopics, s.RepartitionSinkTopics) {
			visit(name)
		}
		for _, t := range slices.Concat(s.StateChangelogTopics, s.RepartitionSourceTopics) {
			visit(t.Topic)
		}
	}
}
