package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/protocol"
)

// StreamsGroupDescribe (key 89), version 0: streams groups (KIP-1071).
func streamsGroupDescribeAPI() api {
	return apiDef[*kmsg.StreamsGroupDescribeRequest]{
		API: protocol.API{Key: int16(kmsg.StreamsGroupDescribe), Max: 0},
		needs: func(req *kmsg.StreamsGroupDescribeRequest, n *needs) {
			for _, id := range req.Groups {
				n.group(opDescribe, id)
			}
		},
		overloaded: kerr.CoordinatorNotAvailable,
		handle:     streamsGroupDescribe,
	}.api()
}

func streamsGroupDescribe(c call, req *kmsg.StreamsGroupDescribeRequest) {
	type described = kmsg.StreamsGroupDescribeResponseGroup
	event := func(ids []string) any { return group.DescribeStreams{Groups: ids} }
	fields := func(g *described) groupFields { return groupFields{&g.Group, &g.ErrorCode, &g.AuthorizedOperations} }
	describeEach(c, req.Groups, req.IncludeAuthorizedOperations, event, kmsg.NewStreamsGroupDescribeResponseGroup, fields,
		func(list []described) kmsg.Response {
			resp := respondTo(c.r, kmsg.NewPtrStreamsGroupDescribeResponse())
			resp.Groups = list
			return resp
		})
}
