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
	b, r := c.b, c.r
	failed := func(id string, code *kerr.Error) kmsg.ConsumerGroupDescribeResponseGroup {
		one := kmsg.NewConsumerGroupDescribeResponseGroup()
		one.Group, one.ErrorCode = id, code.Code
		return one
	}
	perGroup(b, req.Groups, func(ids []string) any { return group.DescribeConsumers{Groups: ids} }, failed,
		func(list []kmsg.ConsumerGroupDescribeResponseGroup) {
			resp := respondTo(r, kmsg.NewPtrConsumerGroupDescribeResponse())
			for i := range list {
				if list[i].ErrorCode != 0 {
					r.Code = list[i].ErrorCode
				} else {
					list[i].AuthorizedOperations = operations(req.IncludeAuthorizedOperations, groupOps)
				}
			}
			resp.Groups = list
			c.respond(resp)
		})
}
