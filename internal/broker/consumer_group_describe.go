package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

// ConsumerGroupDescribe (key 69), versions 0 to 1: consumer groups (KIP-848).
func consumerGroupDescribeAPI() api {
	return api{protocol.API{Key: int16(kmsg.ConsumerGroupDescribe), Min: 0, Max: 1}, (*Broker).consumerGroupDescribe}
}

func (b *Broker) consumerGroupDescribe(r *network.Request) {
	req, err := decode[*kmsg.ConsumerGroupDescribeRequest](b, r)
	if err != nil {
		r.Abort(err)
		return
	}
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
			r.Respond(resp)
		})
}
