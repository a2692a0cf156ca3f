package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// ShareGroupDescribe (key 77), version 1: share groups (KIP-932).
func shareGroupDescribeAPI() api {
	l := namedGroups(kmsg.ShareGroupDescribe, 1, acl.Describe,
		func(req *kmsg.ShareGroupDescribeRequest) *[]string { return &req.GroupIDs }, shareGroupDescribe)
	l.API.Min, l.enabled, l.refuse = 1, sharesEnabled, refuseShareDescribe
	return l.api()
}

// refuseShareDescribe exists because the lists of the request and the answer have different names.
func refuseShareDescribe(_ *network.Request, req *kmsg.ShareGroupDescribeRequest, code *kerr.Error) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ShareGroupDescribeResponse)
	for _, id := range req.GroupIDs {
		d := kmsg.NewShareGroupDescribeResponseGroup()
		d.GroupID, d.ErrorCode = id, code.Code
		if text := denialText(code); text != "" {
			d.ErrorMessage = &text
		}
		resp.Groups = append(resp.Groups, d)
	}
	return resp
}

func shareGroupDescribe(c call, req *kmsg.ShareGroupDescribeRequest) {
	type described = kmsg.ShareGroupDescribeResponseGroup
	event := func(ids []string) any { return group.DescribeShares{Groups: ids} }
	fields := func(g *described) groupFields { return groupFields{&g.GroupID, &g.ErrorCode, &g.AuthorizedOperations} }
	describeEach(c, req.GroupIDs, req.IncludeAuthorizedOperations, event, kmsg.NewShareGroupDescribeResponseGroup, fields,
		shareTopics,
		func(list []described) kmsg.Response {
			resp := respondTo(c.r, kmsg.NewPtrShareGroupDescribeResponse())
			resp.Groups = list
			return resp
		})
}

// shareTopics visits the topics that the description of a group names.
func shareTopics(g *kmsg.ShareGroupDescribeResponseGroup, visit func(string)) {
	for i := range g.Members {
		m := &g.Members[i]
		for _, name := range m.SubscribedTopicNames {
			visit(name)
		}
		for _, t := range m.Assignment.TopicPartitions {
			visit(t.Topic)
		}
	}
}
