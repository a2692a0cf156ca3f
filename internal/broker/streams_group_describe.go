package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// StreamsGroupDescribe (key 89), versions 0 and 1: streams groups (KIP-1071).
func streamsGroupDescribeAPI() api {
	return namedGroupsAPI(kmsg.StreamsGroupDescribe, 1, acl.Describe,
		func(req *kmsg.StreamsGroupDescribeRequest) *[]string { return &req.Groups }, streamsGroupDescribe)
}

// descriptionNotStored is the status of a topology's description that no broker has (KIP-1331).
// Members are not asked to send one: brokers keep it for tools only, in a plugin of Kafka's.
const descriptionNotStored = 1

func streamsGroupDescribe(c call, req *kmsg.StreamsGroupDescribeRequest) {
	type described = kmsg.StreamsGroupDescribeResponseGroup
	event := func(ids []string) any { return group.DescribeStreams{Groups: ids} }
	fields := func(g *described) groupFields { return groupFields{&g.Group, &g.ErrorCode, &g.AuthorizedOperations} }
	describeEach(c, req.Groups, req.IncludeAuthorizedOperations, event, kmsg.NewStreamsGroupDescribeResponseGroup, fields,
		streamsTopics,
		func(list []described) kmsg.Response {
			resp := respondTo(c.r, kmsg.NewPtrStreamsGroupDescribeResponse())
			resp.Groups = list
			for i := range list {
				if req.IncludeTopologyDescription && list[i].ErrorCode == 0 {
					list[i].TopologyDescriptionStatus = descriptionNotStored
				}
			}
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
