package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// CreateAcls (key 30), versions 1 to 3: new access rules (KIP-140). Rules that exist are no error.
func createACLsAPI() api {
	return apiDef[*kmsg.CreateACLsRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.CreateACLs), Min: 1, Max: 3},
		asks:         clusterAsks[*kmsg.CreateACLsRequest](acl.Alter),
		refuse: func(r *network.Request, req *kmsg.CreateACLsRequest, code *kerr.Error) kmsg.Response {
			return refuseACLs(r, req, denied(code))
		},
		overloaded: kerr.NotController,
		handle:     inBackground(atMetadata, createACLs),
	}.api()
}

func createACLs(ctx context.Context, b *Handler, r *network.Request, req *kmsg.CreateACLsRequest) kmsg.Response {
	if err := b.withoutRules(""); err != nil {
		return refuseACLs(r, req, err)
	}
	c := b.newChange(r, changeTimeout)
	rules := make([]acl.Binding, len(req.Creations))
	for i := range req.Creations {
		one := &req.Creations[i]
		rules[i] = acl.Binding{Type: acl.ResourceType(one.ResourceType), Name: one.ResourceName,
			Pattern: acl.Pattern(one.ResourcePatternType), Principal: one.Principal, Host: one.Host,
			Operation: acl.Operation(one.Operation), Permission: acl.Permission(one.PermissionType)}
	}
	var errs []error
	err := c.do(ctx, func(ctx context.Context) (revision int64, err error) {
		errs, revision, err = b.opt.Controller.CreateACLs(ctx, rules)
		return revision, err
	})
	if err == nil {
		err = c.waitVisible(ctx)
	}
	resp := respondTo(r, kmsg.NewPtrCreateACLsResponse())
	for i := range rules {
		one := kmsg.NewCreateACLsResponseResult()
		one.ErrorMessage = kmsg.StringPtr("") // as Kafka
		switch {
		case i < len(errs) && errs[i] != nil:
			one.ErrorCode, one.ErrorMessage = c.verdict(errs[i])
		case err != nil:
			one.ErrorCode, one.ErrorMessage = c.verdict(err)
		}
		resp.Results = append(resp.Results, one)
	}
	return resp
}

// refuseACLs answers with one error for all rules. The answer does not repeat them.
func refuseACLs(r *network.Request, req *kmsg.CreateACLsRequest, err error) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrCreateACLsResponse())
	resp.Results = make([]kmsg.CreateACLsResponseResult, len(req.Creations))
	for i := range resp.Results {
		resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = verdict(err)
		r.Code = resp.Results[i].ErrorCode
	}
	return resp
}
