package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// ConsumerGroupDescribe (key 69), versions 0 to 1: consumer groups (KIP-848).
func consumerGroupDescribeAPI() api {
	return namedGroupsAPI(kmsg.ConsumerGroupDescribe, 1, acl.Describe,
		func(req *kmsg.ConsumerGroupDescribeRequest) *[]string { return &req.Groups }, consumerGroupDescribe)
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
