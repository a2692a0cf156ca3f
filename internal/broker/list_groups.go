package broker

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// ListGroups (key 16), versions 0 to 5: the groups that this broker coordinates. If one shard can't
// be asked, the whole request fails, because an incomplete list looks like a complete one. Who may
// not describe the cluster gets the groups that it may describe.
func listGroupsAPI() api {
	return apiDef[*kmsg.ListGroupsRequest]{
		API:        protocol.API{Key: int16(kmsg.ListGroups), Max: 5},
		asks:       asks[*kmsg.ListGroupsRequest]{inside: true},
		overloaded: kerr.CoordinatorNotAvailable,
		route:      route[*kmsg.ListGroupsRequest]{by: byAll, join: joinGroups},
		handle:     inBackground(atGroups, listGroups),
	}.api()
}

func listGroups(ctx context.Context, b *Handler, r *network.Request, req *kmsg.ListGroupsRequest) kmsg.Response {
	resp, m := respondTo(r, kmsg.NewPtrListGroupsResponse()), b.rights(r)
	all := m.mayCluster(acl.Describe)
	hidden := func(g kmsg.ListGroupsResponseGroup) bool { return !all && !m.may(acl.Describe, acl.Group, g.Group) }
	lists, err := service.Collect[[]kmsg.ListGroupsResponseGroup](ctx, b.opt.Groups.Service,
		group.List{States: group.FilterOf(req.StatesFilter), Types: group.FilterOf(req.TypesFilter)})
	if err != nil {
		setCode(r, &resp.ErrorCode, b.listError(r, err))
		return resp
	}
	resp.Groups = slices.DeleteFunc(slices.Concat(lists...), hidden)
	return resp
}
