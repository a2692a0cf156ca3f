package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// DescribeGroups (key 15), versions 0 to 6: classic groups.
func describeGroupsAPI() api {
	return apiDef[*kmsg.DescribeGroupsRequest]{
		API: protocol.API{Key: int16(kmsg.DescribeGroups), Max: 6},
		asks: asks[*kmsg.DescribeGroupsRequest]{parts: each(
			func(req *kmsg.DescribeGroupsRequest) *[]string { return &req.Groups },
			func(m rights, _ *kmsg.DescribeGroupsRequest, id *string) *kerr.Error {
				return m.group(acl.Describe, *id)
			})},
		overloaded: kerr.CoordinatorNotAvailable,
		handle:     later(atGroups, describeGroups),
	}.api()
}

func describeGroups(c call, req *kmsg.DescribeGroupsRequest) {
	type described = kmsg.DescribeGroupsResponseGroup
	event := func(ids []string) any { return group.Describe{Groups: ids, Version: req.Version} }
	fields := func(g *described) groupFields { return groupFields{&g.Group, &g.ErrorCode, &g.AuthorizedOperations} }
	describeEach(c, req.Groups, req.IncludeAuthorizedOperations, event, kmsg.NewDescribeGroupsResponseGroup, fields, nil,
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
// empty returns a description with default values. topics visits the topics that a description
// names: who may not describe one of them gets an error instead. nil: it names none, except in what
// members have chosen to tell about themselves.
func describeEach[G any](c call, ids []string, withOperations bool, event func(ids []string) any, empty func() G,
	fields func(*G) groupFields, topics func(*G, func(string)), respond func([]G) kmsg.Response) {
	hides := func(m rights, g *G) (hidden bool) {
		if topics != nil && !m.everything() {
			topics(g, func(name string) { hidden = hidden || !m.mayTopic(acl.Describe, name) })
		}
		return hidden
	}
	failed := func(id string, code *kerr.Error) G {
		one := empty()
		f := fields(&one)
		*f.id, *f.code = id, code.Code
		return one
	}
	perKey(c.b, c.b.opt.Groups, ids, event, failed, func(list []G) {
		m := c.b.rights(c.r)
		for i := range list {
			if hides(m, &list[i]) {
				list[i] = failed(*fields(&list[i]).id, kerr.TopicAuthorizationFailed)
			}
			if f := fields(&list[i]); *f.code != 0 {
				c.r.Code = *f.code
			} else {
				*f.operations = m.groupOperations(withOperations, *f.id)
			}
		}
		c.respond(respond(list))
	})
}
