package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// ConsumerGroupDescribe (key 69), versions 0 to 1: consumer groups (KIP-848).
func consumerGroupDescribeAPI() api {
	return apiDef[*kmsg.ConsumerGroupDescribeRequest]{
		API: protocol.API{Key: int16(kmsg.ConsumerGroupDescribe), Max: 1},
		asks: asks[*kmsg.ConsumerGroupDescribeRequest]{parts: each(
			func(req *kmsg.ConsumerGroupDescribeRequest) *[]string { return &req.Groups },
			func(m rights, _ *kmsg.ConsumerGroupDescribeRequest, id *string) *kerr.Error {
				return m.group(acl.Describe, *id)
			})},
		overloaded: kerr.CoordinatorNotAvailable,
		handle:     later(atGroups, consumerGroupDescribe),
	}.api()
}

func consumerGroupDescribe(c call, req *kmsg.ConsumerGroupDescribeRequest) {
	type described = kmsg.ConsumerGroupDescribeResponseGroup
	event := func(ids []string) any { return group.DescribeConsumers{Groups: ids} }
	fields := func(g *described) groupFields { return groupFields{&g.Group, &g.ErrorCode, &g.AuthorizedOperations} }
	describeEach(c, req.Groups, req.IncludeAuthorizedOperations, event, kmsg.NewConsumerGroupDescribeResponseGroup, fields,
		consumerTopics,
		func(list []described) kmsg.Response {
			resp := respondTo(c.r, kmsg.NewPtrConsumerGroupDescribeResponse())
			resp.Groups = list
			return resp
		})
}

// consumerTopics visits the topics that the description of a group names.
func consumerTopics(g *kmsg.ConsumerGroupDescribeResponseGroup, visit func(string)) {
	for i := range g.Members {
		m := &g.Members[i]
		for _, name := range m.SubscribedTopics {
			visit(name)
		}
		for _, t := range slices.Concat(m.Assignment.TopicPartitions, m.TargetAssignment.TopicPartitions) {
			visit(t.Topic)
		}
	}
}
