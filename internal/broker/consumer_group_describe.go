package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/protocol"
)

// ConsumerGroupDescribe (key 69), versions 0 to 1: consumer groups (KIP-848).
func consumerGroupDescribeAPI() api {
	return apiDef[*kmsg.ConsumerGroupDescribeRequest]{
		API: protocol.API{Key: int16(kmsg.ConsumerGroupDescribe), Max: 1},
		needs: func(req *kmsg.ConsumerGroupDescribeRequest, n *needs) {
			for _, id := range req.Groups {
				n.group(opDescribe, id)
			}
		},
		overloaded: kerr.CoordinatorNotAvailable,
		handle:     consumerGroupDescribe,
	}.api()
}

func consumerGroupDescribe(c call, req *kmsg.ConsumerGroupDescribeRequest) {
	type described = kmsg.ConsumerGroupDescribeResponseGroup
	event := func(ids []string) any { return group.DescribeConsumers{Groups: ids} }
	fields := func(g *described) groupFields { return groupFields{&g.Group, &g.ErrorCode, &g.AuthorizedOperations} }
	describeEach(c, req.Groups, req.IncludeAuthorizedOperations, event, kmsg.NewConsumerGroupDescribeResponseGroup, fields,
		func(list []described) kmsg.Response {
			resp := respondTo(c.r, kmsg.NewPtrConsumerGroupDescribeResponse())
			resp.Groups = list
			return resp
		})
}
