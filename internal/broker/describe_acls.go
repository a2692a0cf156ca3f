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
		API:         protocol.API{Key: int16(kmsg.DescribeACLs), Min: 1, Max: 3},
		asks:        clusterAsks[*kmsg.DescribeACLsRequest](acl.Describe),
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
		resp.ErrorCode, resp.ErrorMessage = b.verdict(r, err)
		r.Code = resp.ErrorCode
		return resp
	}
	resp.Resources = byResource(selectRules(b.image(), &f))
	return resp
}

// byResource groups rules by their resource, in the order of their first rules.
func byResource(rules []acl.Binding) (list []kmsg.DescribeACLsResponseResource) {
	type resource struct {
		kind    acl.ResourceType
		name    string
		pattern acl.Pattern
	}
	at := map[resource]int{}
	for i := range rules {
		rule := &rules[i]
		key := resource{kind: rule.Type, name: rule.Name, pattern: rule.Pattern}
		k, known := at[key]
		if !known {
			k, at[key] = len(list), len(list)
			one := kmsg.NewDescribeACLsResponseResource()
			one.ResourceType = kmsg.ACLResourceType(rule.Type)
			one.ResourceName = rule.Name
			one.ResourcePatternType = kmsg.ACLResourcePatternType(rule.Pattern)
			list = append(list, one)
		}
		one := kmsg.NewDescribeACLsResponseResourceACL()
		one.Principal = rule.Principal
		one.Host = rule.Host
		one.Operation = kmsg.ACLOperation(rule.Operation)
		one.PermissionType = kmsg.ACLPermissionType(rule.Permission)
		list[k].ACLs = append(list[k].ACLs, one)
	}
	return list
}
