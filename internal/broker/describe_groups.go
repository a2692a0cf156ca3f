package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/protocol"
)

// DescribeGroups (key 15), versions 0 to 6: classic groups.
func describeGroupsAPI() api {
	return apiDef[*kmsg.DescribeGroupsRequest]{
		API: protocol.API{Key: int16(kmsg.DescribeGroups), Max: 6},
		needs: func(req *kmsg.DescribeGroupsRequest, n *needs) {
			for _, id := range req.Groups {
				n.group(opDescribe, id)
			}
		},
		overloaded: kerr.CoordinatorNotAvailable,
		handle:     describeGroups,
	}.api()
}

func describeGroups(c call, req *kmsg.DescribeGroupsRequest) {
	b, r := c.b, c.r
	failed := func(id string, code *kerr.Error) kmsg.DescribeGroupsResponseGroup {
		one := kmsg.NewDescribeGroupsResponseGroup()
		one.Group, one.ErrorCode = id, code.Code
		return one
	}
	perGroup(b, req.Groups, func(ids []string) any { return group.Describe{Groups: ids, Version: req.Version} }, failed,
		func(list []kmsg.DescribeGroupsResponseGroup) {
			resp := respondTo(r, kmsg.NewPtrDescribeGroupsResponse())
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
