package broker

import (
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
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
		handle:     later(atGroups, listGroups),
	}.api()
}

func listGroups(c call, req *kmsg.ListGroupsRequest) {
	b, r, m := c.b, c.r, c.b.rights(c.r)
	all := m.mayCluster(acl.Describe)
	hidden := func(g kmsg.ListGroupsResponseGroup) bool { return !all && !m.may(acl.Describe, acl.Group, g.Group) }
	resp := respondTo(r, kmsg.NewPtrListGroupsResponse())
	var mu sync.Mutex
	shards := b.opt.Groups.Partitions()
	ended := newGather(len(shards), func() {
		if resp.ErrorCode != 0 {
			resp.Groups = nil
		}
		r.Code = resp.ErrorCode
		c.respond(resp)
	})
	which := group.List{States: group.FilterOf(req.StatesFilter), Types: group.FilterOf(req.TypesFilter)}
	for _, p := range shards {
		b.opt.Groups.SubmitTo(p, which, func(answer any, err error) {
			list, ok := answer.([]kmsg.ListGroupsResponseGroup)
			mu.Lock()
			if c := b.listError(answer, ok, err); c != nil {
				resp.ErrorCode = c.Code
			} else {
				resp.Groups = append(resp.Groups, slices.DeleteFunc(list, hidden)...)
			}
			mu.Unlock()
			ended.finish()
		})
	}
	ended.finish()
}
