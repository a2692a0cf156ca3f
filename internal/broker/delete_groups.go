package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// DeleteGroups (key 42), versions 0 to 3: groups without members, with their offsets.
func deleteGroupsAPI() api {
	l := namedGroups(kmsg.DeleteGroups, 3, acl.Delete,
		func(req *kmsg.DeleteGroupsRequest) *[]string { return &req.Groups }, deleteGroups)
	l.changes = deletedGroups
	return l.api()
}

func deleteGroups(c call, req *kmsg.DeleteGroupsRequest) {
	b, r := c.b, c.r
	failed := func(id string, code *kerr.Error) kmsg.DeleteGroupsResponseGroup {
		one := kmsg.NewDeleteGroupsResponseGroup()
		one.Group, one.ErrorCode = id, code.Code
		return one
	}
	perKey(b, b.opt.Groups, req.Groups, func(ids []string) any { return group.Delete{Groups: ids} }, failed,
		func(list []kmsg.DeleteGroupsResponseGroup) {
			resp := respondTo(r, kmsg.NewPtrDeleteGroupsResponse())
			for i := range list {
				if list[i].ErrorCode != 0 {
					r.Code = list[i].ErrorCode
				}
			}
			resp.Groups = list
			c.respond(resp)
		})
}
