package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// DeleteAcls (key 31), versions 1 to 3: deletes the access rules that filters select, and names
// them (KIP-140).
func deleteACLsAPI() api {
	return apiDef[*kmsg.DeleteACLsRequest]{
		API:  protocol.API{Key: int16(kmsg.DeleteACLs), Min: 1, Max: 3},
		asks: clusterAsks[*kmsg.DeleteACLsRequest](acl.Alter),
		refuse: func(r *network.Request, req *kmsg.DeleteACLsRequest, code *kerr.Error) kmsg.Response {
			return refuseFilters(r, req, denied(code))
		},
		overloaded: kerr.NotController,
		handle:     inBackground(atMetadata, deleteACLs),
	}.api()
}

func deleteACLs(ctx context.Context, b *Handler, r *network.Request, req *kmsg.DeleteACLsRequest) kmsg.Response {
	if err := b.withoutRules(""); err != nil {
		return refuseFilters(r, req, err)
	}
	c := b.newChange(r, changeTimeout)
	filters := make([]acl.Filter, len(req.Filters))
	for i := range req.Filters {
		f := &req.Filters[i]
		filters[i] = aclFilter(f.ResourceType, f.ResourceName, f.ResourcePatternType, f.Principal, f.Host, f.Operation, f.PermissionType)
	}
	var results []controller.DeletedACLs
	err := c.do(ctx, func(ctx context.Context) (revision int64, err error) {
		results, revision, err = b.opt.Controller.DeleteACLs(ctx, filters)
		return revision, err
	})
	if err == nil {
		err = c.waitVisible(ctx)
	}
	if err != nil {
		return refuseFilters(r, req, err)
	}
	resp := respondTo(r, kmsg.NewPtrDeleteACLsResponse())
	for i := range results {
		one := kmsg.NewDeleteACLsResponseResult()
		one.ErrorCode, one.ErrorMessage = c.verdict(results[i].Err)
		for _, rule := range results[i].Rules {
			m := kmsg.NewDeleteACLsResponseResultMatchingACL()
			m.ResourceType, m.ResourceName, m.ResourcePatternType = kmsg.ACLResourceType(rule.Type), rule.Name,
				kmsg.ACLResourcePatternType(rule.Pattern)
			m.Principal, m.Host, m.Operation, m.PermissionType = rule.Principal, rule.Host, kmsg.ACLOperation(rule.Operation),
				kmsg.ACLPermissionType(rule.Permission)
			one.MatchingACLs = append(one.MatchingACLs, m)
		}
		resp.Results = append(resp.Results, one)
	}
	return resp
}

// refuseFilters answers with one error for all filters.
func refuseFilters(r *network.Request, req *kmsg.DeleteACLsRequest, err error) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDeleteACLsResponse())
	resp.Results = make([]kmsg.DeleteACLsResponseResult, len(req.Filters))
	for i := range resp.Results {
		resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = verdict(err)
		r.Code = resp.Results[i].ErrorCode
	}
	return resp
}
