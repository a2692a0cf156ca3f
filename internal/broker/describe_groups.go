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
	type described = kmsg.DescribeGroupsResponseGroup
	event := func(ids []string) any { return group.Describe{Groups: ids, Version: req.Version} }
	fields := func(g *described) groupFields { return groupFields{&g.Group, &g.ErrorCode, &g.AuthorizedOperations} }
	describeEach(c, req.Groups, req.IncludeAuthorizedOperations, event, kmsg.NewDescribeGroupsResponseGroup, fields,
		func(list []described) kmsg.Response {
			resp := respondTo(c.r, kmsg.NewPtrDescribeGroupsResponse())
			resp.Groups = list
			return resp
		})
}

// groupFields are the fields that both descriptions of a group have.
type groupFields struct {
	id         *string
	code       *int16
	operations *int32
}

// describeEach asks the shards of groups to describe them, and responds. event is as for perKey,
// empty returns a description with default values.
func describeEach[G any](c call, ids []string, withOperations bool, event func(ids []string) any, empty func() G,
	fields func(*G) groupFields,
	respond func([]G) kmsg.Response) {
	failed := func(id string, code *kerr.Error) G {
		one := empty()
		f := fields(&one)
		*f.id, *f.code = id, code.Code
		return one
	}
	perKey(c.b, c.b.opt.Groups, ids, event, failed, func(list []G) {
		for i := range list {
			if f := fields(&list[i]); *f.code != 0 {
				c.r.Code = *f.code
			} else {
				*f.operations = operations(withOperations, groupOps)
			}
		}
		c.respond(respond(list))
	})
}
