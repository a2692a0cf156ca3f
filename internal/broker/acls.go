package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/sorts"
)

// withoutRules returns the error of requests about access rules while the broker does not ask
// them; nil if it does. The words are Kafka's, with where there has to be an authorizer.
func (b *Handler) withoutRules(where string) error {
	if b.opt.Rules != nil && b.opt.Rules() != nil {
		return nil
	}
	return protocolErrorf(kerr.SecurityDisabled, "No Authorizer is configured%s. Set authorization: acl in the broker's configuration.",
		where)
}

// aclFilter returns the filter of a request.
func aclFilter(t kmsg.ACLResourceType, name *string, pattern kmsg.ACLResourcePatternType, principal, host *string,
	op kmsg.ACLOperation, permission kmsg.ACLPermissionType) acl.Filter {
	return acl.Filter{Type: acl.ResourceType(t), Name: name, Pattern: acl.Pattern(pattern), Principal: principal, Host: host,
		Operation: acl.Operation(op), Permission: acl.Permission(permission)}
}

// selectRules returns the access rules that a filter selects, those of a resource together.
func selectRules(img *metadata.Image, f *acl.Filter) []acl.Binding {
	var list []acl.Binding
	for b := range img.ACLs() {
		if f.Matches(&b) {
			list = append(list, b)
		}
	}
	sorts.Sort(list, acl.Compare)
	return list
}
