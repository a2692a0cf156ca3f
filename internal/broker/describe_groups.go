package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// namedGroupsAPI returns the definition of an API whose requests name groups. A client needs the
// right to op on each of them.
func namedGroupsAPI[Q any, R interface {
	*Q
	kmsg.Request
}](key kmsg.Key, most int16, op acl.Operation, groups func(R) *[]string, run func(call, R)) api {
	return namedGroups(key, most, op, groups, run).api()
}

// namedGroups returns the definition of such an API.
func namedGroups[Q any, R interface {
	*Q
	kmsg.Request
}](key kmsg.Key, most int16, op acl.Operation, groups func(R) *[]string, run func(call, R)) apiDef[R] {
	return apiDef[R]{
		inProportion: op != acl.Describe, // a description has the members

		API:        protocol.API{Key: int16(key), Max: most},
		asks:       asks[R]{parts: each(groups, func(m rights, _ R, id *string) *kerr.Error { return m.group(op, *id) })},
		overloaded: kerr.CoordinatorNotAvailable,
		route:      toGroups(func(req R) []string { return *groups(req) }),
		handle:     later(atGroups, run),
	}
}

// DescribeGroups (key 15), versions 0 to 6: classic groups.
func describeGroupsAPI() api {
	return namedGroupsAPI(kmsg.DescribeGroups, 6, acl.Describe,
		func(req *kmsg.DescribeGroupsRequest) *[]string { return &req.Groups }, describeGroups)
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

// describeEach asks the shards of groups to describe them, and responds on the goroutine of the
// last shard that answers. It does not block. event is as for perKey, and empty returns a
// description with default values. topics visits the topics that a description names: a client
// without the right to describe one of them gets an error instead. nil: a description names no
// topics, except in the metadata of members, which the broker does not read. The code that the
// broker counts for the request is that of the last group with an error: a request has one.
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
			f := fields(&list[i])
			if hides(m, &list[i]) {
				list[i] = failed(*f.id, kerr.TopicAuthorizationFailed)
			}
			if *f.code != 0 {
				c.r.Code = *f.code
			} else {
				*f.operations = m.groupOperations(withOperations, *f.id)
			}
		}
		c.respond(respond(list))
	})
}
