package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// DescribeAcls (key 29), versions 1 to 3: the access rules that a filter selects (KIP-140).
func describeACLsAPI() api {
	return apiDef[*kmsg.DescribeACLsRequest]{
		API: protocol.API{Key: int16(kmsg.DescribeACLs), Min: 1, Max: 3},
		asks: asks[*kmsg.DescribeACLsRequest]{
			whole: func(m rights, _ *kmsg.DescribeACLsRequest) *kerr.Error { return m.cluster(acl.Describe) },
		},
		answerBytes: func(b *Handler, _ *kmsg.DescribeACLsRequest) int64 { return entryAnswer * int64(b.image().NumACLs()) },
		handle:      answering(describeACLs),
	}.api()
}

func describeACLs(b *Handler, r *network.Request, req *kmsg.DescribeACLsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDescribeACLsResponse())
	f := aclFilter(req.ResourceType, req.ResourceName, req.ResourcePatternType, req.Principal, req.Host, req.Operation,
		req.PermissionType)
	err := b.withoutRules(" on the broker")
	if why := f.Unknown(); err == nil && why != "" {
		err = protocolErrorf(kerr.InvalidRequest, "%s", why)
	}
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = verdict(err)
		r.Code = resp.ErrorCode
		return resp
	}
	for _, rule := range selectRules(b.image(), &f) {
		t, pattern := kmsg.ACLResourceType(rule.Type), kmsg.ACLResourcePatternType(rule.Pattern)
		n := len(resp.Resources)
		if n == 0 || resp.Resources[n-1].ResourceType != t || resp.Resources[n-1].ResourceName != rule.Name ||
			resp.Resources[n-1].ResourcePatternType != pattern {
			resource := kmsg.NewDescribeACLsResponseResource()
			resource.ResourceType, resource.ResourceName, resource.ResourcePatternType = t, rule.Name, pattern
			resp.Resources = append(resp.Resources, resource)
			n++
		}
		one := kmsg.NewDescribeACLsResponseResourceACL()
		one.Principal, one.Host, one.Operation, one.PermissionType = rule.Principal, rule.Host, kmsg.ACLOperation(rule.Operation),
			kmsg.ACLPermissionType(rule.Permission)
		resp.Resources[n-1].ACLs = append(resp.Resources[n-1].ACLs, one)
	}
	return resp
}
