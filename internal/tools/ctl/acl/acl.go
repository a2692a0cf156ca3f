// Package acl implements chronikctl acl: list, add, remove and explain.
//
// It needs only Kafka's protocol. What a rule means is decided by the code that decides in a
// broker, internal/security/acl: explain reads all rules and asks it. remove removes exactly the
// rules that it names, after a confirmation. Each command is in a file of its name, add and remove
// in change.go; this file has what they share.
package acl

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// New returns the command acl.
func New(a *app.App) *cobra.Command {
	c := app.Parent("acl", "List, add, remove and explain access rules (ACLs)", list(a), add(a), remove(a), explain(a))
	c.Aliases = []string{"acls"}
	const order = "the principal and the operation are arguments: acl add USER OPERATION RESOURCE"
	cli.Instead(c, map[string]string{
		"create":            "acl add adds rules",
		"grant":             "acl add adds rules",
		"allow":             "acl add adds rules",
		"deny":              "acl add --deny adds rules that deny",
		"delete":            "acl remove removes rules",
		"revoke":            "acl remove removes rules",
		"describe":          "acl list shows rules, acl explain what they decide",
		"check":             "acl explain says which rule decides",
		"test":              "acl explain says which rule decides",
		"--allow-principal": order,
		"--principal":       order,
		"--operation":       order,
		"--deny-principal":  "--deny makes a rule that denies: acl add USER OPERATION RESOURCE --deny",
		"--allow-host":      "--host names the host",
	})
	return c
}

// resourceHelp is the syntax of a resource.
const resourceHelp = "A resource is topic:NAME, group:NAME, transactional-id:NAME, user:NAME, " +
	"delegation-token:NAME or cluster. NAME is * for all.\n"

// entry is a rule in answers.
type entry struct {
	Resource   string `json:"resource"` // its type
	Name       string `json:"name"`
	Pattern    string `json:"pattern"`
	Principal  string `json:"principal"`
	Host       string `json:"host"`
	Operation  string `json:"operation"`
	Permission string `json:"permission"`
}

func newEntry(b *acl.Binding) entry {
	return entry{acl.Written(b.Type), b.Name, acl.Written(b.Pattern), b.Principal, b.Host, acl.Written(b.Operation),
		acl.Written(b.Permission)}
}

// table returns rules as a table and as entries.
func table(rules []acl.Binding, empty string) ([]entry, *output.Table) {
	t := &output.Table{Columns: []string{"RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "PERMISSION", "OPERATION", "HOST"}, Empty: empty}
	all := make([]entry, 0, len(rules))
	for i := range rules {
		e := newEntry(&rules[i])
		all = append(all, e)
		t.Add(e.Resource, e.Name, e.Pattern, e.Principal, e.Permission, e.Operation, e.Host)
	}
	return all, t
}

// principal returns the principal of a user's name.
func principal(name string) string {
	if strings.Contains(name, ":") {
		return name
	}
	return "User:" + name
}

// resource parses a resource.
func resource(s string) (acl.ResourceType, string, error) {
	kind, name, named := strings.Cut(s, ":")
	t, err := acl.ParseResourceType(kind)
	switch {
	case err != nil || t == acl.TypeAny:
		return 0, "", app.Usage("%q is no resource: write topic:NAME, group:NAME, transactional-id:NAME, user:NAME, "+
			"delegation-token:NAME or cluster", s)
	case t == acl.Cluster && !named:
		name = acl.ClusterName
	case name == "":
		return 0, "", app.Usage("%q names no %s: write %s:NAME, or %s:* for all", s, kind, kind, kind)
	}
	return t, name, nil
}

// operations parses a list of operations.
func operations(s string) ([]acl.Operation, error) {
	var ops []acl.Operation
	for one := range strings.SplitSeq(s, ",") {
		op, err := acl.ParseOperation(one)
		if err == nil && op == acl.OperationAny {
			err = fmt.Errorf("any is a filter, not an operation; use all")
		}
		if err != nil {
			return nil, app.Usage("%w", err)
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// fetch returns the rules that a filter selects, sorted.
func fetch(ctx context.Context, cl *kgo.Client, f *acl.Filter) ([]acl.Binding, error) {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourceName, req.ResourcePatternType = kmsg.ACLResourceType(f.Type), f.Name,
		kmsg.ACLResourcePatternType(f.Pattern)
	req.Principal, req.Host, req.Operation, req.PermissionType = f.Principal, f.Host, kmsg.ACLOperation(f.Operation),
		kmsg.ACLPermissionType(f.Permission)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, app.Refused("list ACLs", app.Needs(app.BrokerError(err), app.OnCluster("describe")), "")
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, app.Refused("list ACLs", app.Needs(err, app.OnCluster("describe")), app.OrEmpty(resp.ErrorMessage))
	}
	var rules []acl.Binding
	for _, r := range resp.Resources {
		for _, one := range r.ACLs {
			rules = append(rules, acl.Binding{Type: acl.ResourceType(r.ResourceType), Name: r.ResourceName,
				Pattern: acl.Pattern(r.ResourcePatternType), Principal: one.Principal, Host: one.Host,
				Operation: acl.Operation(one.Operation), Permission: acl.Permission(one.PermissionType)})
		}
	}
	sorts.Sort(rules, acl.Compare)
	return rules, nil
}
