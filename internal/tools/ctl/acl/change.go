package acl

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// change is what add and remove have in common: the rules that the command line names.
type change struct {
	hosts        []string
	deny, prefix bool
	add          bool // rules that can never apply are errors
	dryRun       bool
}

func (x *change) flags(c *cobra.Command) {
	c.Flags().StringSliceVar(&x.hosts, "host", []string{acl.Wildcard}, "hosts of the rules, as addresses without a port; * for every host")
	c.Flags().BoolVar(&x.deny, "deny", false, "rules that deny; they win over all that allow")
	c.Flags().BoolVar(&x.prefix, "prefix", false, "NAME is the beginning of names")
	c.Flags().BoolVar(&x.dryRun, "dry-run", false, "only check and list what would be done")
}

// rules returns the rules of a command line.
func (x *change) rules(args []string) ([]acl.Binding, error) {
	ops, err := operations(args[1])
	if err != nil {
		return nil, err
	}
	var rules []acl.Binding
	for _, where := range args[2:] {
		t, name, err := resource(where)
		if err != nil {
			return nil, err
		}
		for _, op := range ops {
			for _, host := range x.hosts {
				b := acl.Binding{Type: t, Name: name, Pattern: acl.Literal, Principal: principal(args[0]), Host: host, Operation: op,
					Permission: acl.Allow}
				if x.prefix {
					b.Pattern = acl.Prefixed
				}
				if x.deny {
					b.Permission = acl.Deny
				}
				if why := b.Check(); why != "" {
					return nil, app.Usage("%s: %s", where, why)
				}
				if supported := acl.Supported(t); op != acl.All && !supported.Has(op) {
					return nil, app.Usage("%s: a %s has no operation %s", where, acl.Written(t), acl.Written(op))
				}
				if err := effective(&b); x.add && err != nil {
					return nil, err
				}
				rules = append(rules, b)
			}
		}
	}
	return rules, nil
}

// run fetches all rules, and calls do with the rules of the command line.
func (x *change) run(a *app.App, do func(cmd *cobra.Command, cl *kgo.Client, rules, existing []acl.Binding) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		rules, err := x.rules(args)
		if err != nil {
			return err
		}
		return withAll(cmd.Context(), a, func(cl *kgo.Client, existing []acl.Binding) error { return do(cmd, cl, rules, existing) })
	}
}

// withAll fetches all rules and calls do with them.
func withAll(ctx context.Context, a *app.App, do func(cl *kgo.Client, all []acl.Binding) error) error {
	cl, err := a.Requests(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	every := acl.AllBindings()
	all, err := fetch(ctx, cl, &every)
	if err != nil {
		return err
	}
	return do(cl, all)
}

// result is the broker's answer about one rule.
type result struct {
	code    int16
	message *string
}

// report prints what was done with the rules for which the broker was asked.
func report(a *app.App, out *app.Outcomes, verb, done string, asked []acl.Binding, results []result) error {
	if len(results) != len(asked) {
		return app.Refused(verb+" ACLs", fmt.Errorf("the broker answers for %d of %d rules", len(results), len(asked)), "")
	}
	for i, r := range results {
		rule := asked[i].String()
		if err := kerr.ErrorForCode(r.code); err != nil {
			out.Refused(rule, verb+" "+rule, err, app.OrEmpty(r.message))
		} else {
			out.Done(rule, "%s", done)
		}
	}
	return a.PrintOutcomes(out)
}

func add(a *app.App) *cobra.Command {
	x := change{add: true}
	c := &cobra.Command{
		Use: "add USER OPERATION[,OPERATION...] RESOURCE...", Short: "Add access rules",
		Args: app.Args(3, -1, "USER, OPERATION and RESOURCE"),
		Long: "add allows a user operations on resources, or denies them. Rules that exist are left " +
			"alone. USER is a name, or a principal\n" +
			"such as User:* for everybody. " + resourceHelp + "read, write, delete and alter include " +
			"describe; alter-configs includes describe-configs.\n",
		Example: "  chronikctl acl add bob read,write topic:orders\n  chronikctl acl add bob read group:billing- --prefix --dry-run\n" +
			"  chronikctl acl add 'User:*' write 'topic:*' --deny --host 10.0.0.7",
	}
	c.RunE = x.run(a, func(cmd *cobra.Command, cl *kgo.Client, rules, existing []acl.Binding) error {
		var out app.Outcomes
		req := kmsg.NewPtrCreateACLsRequest()
		var asked []acl.Binding
		for i, b := range rules {
			switch {
			case slices.Contains(existing, b):
				out.Done(b.String(), "exists already")
			case slices.Contains(rules[:i], b):
			case x.dryRun:
				out.Done(b.String(), "would be added")
			default:
				one := kmsg.NewCreateACLsRequestCreation()
				one.ResourceType, one.ResourceName, one.ResourcePatternType = kmsg.ACLResourceType(b.Type), b.Name,
					kmsg.ACLResourcePatternType(b.Pattern)
				one.Principal, one.Host, one.Operation, one.PermissionType = b.Principal, b.Host, kmsg.ACLOperation(b.Operation),
					kmsg.ACLPermissionType(b.Permission)
				req.Creations, asked = append(req.Creations, one), append(asked, b)
			}
		}
		if len(asked) == 0 {
			return a.PrintOutcomes(&out)
		}
		resp, err := req.RequestWith(cmd.Context(), cl)
		if err != nil {
			return app.Refused("add ACLs", app.Needs(app.BrokerError(err), app.OnCluster("alter")), "")
		}
		var results []result
		for _, r := range resp.Results {
			results = append(results, result{r.ErrorCode, r.ErrorMessage})
		}
		return report(a, &out, "add", "added", asked, results)
	})
	x.flags(c)
	return c
}

// effective refuses rules that no request can ever match. Kafka stores them, and a rule that denies
// would then only look like protection. They can be removed.
func effective(b *acl.Binding) error {
	if _, err := netip.ParseAddr(b.Host); err != nil && b.Host != acl.Wildcard {
		return app.Usage("--host %s is no address, so the rule would never apply: networks and names do not work; "+
			"write an address without a port, or * for every host", b.Host)
	}
	if b.Pattern == acl.Prefixed && b.Name == acl.Wildcard {
		return app.Usage("with --prefix, * means names that begin with an asterisk; leave out --prefix for every %s", acl.Written(b.Type))
	}
	return nil
}

func remove(a *app.App) *cobra.Command {
	var x change
	c := &cobra.Command{
		Use: "remove USER OPERATION[,OPERATION...] RESOURCE...", Short: "Remove access rules",
		Args: app.Args(3, -1, "USER, OPERATION and RESOURCE"),
		Long: "remove removes the rules that acl add with the same arguments and flags has added, and no others: see acl list. It is an\n" +
			"error if a rule does not exist. " + resourceHelp,
		Example: "  chronikctl acl remove bob write topic:orders --dry-run\n  chronikctl acl remove bob write topic:orders",
	}
	c.RunE = x.run(a, func(cmd *cobra.Command, cl *kgo.Client, rules, existing []acl.Binding) error {
		var out app.Outcomes
		req := kmsg.NewPtrDeleteACLsRequest()
		var asked []acl.Binding
		var losses []string
		for i, b := range rules {
			switch {
			case slices.Contains(rules[:i], b):
			case !slices.Contains(existing, b):
				out.Failed(b.String(), fmt.Errorf("remove %v: there is no such rule; chronikctl acl list shows the rules", b))
			case x.dryRun:
				out.Done(b.String(), "would be removed")
			default:
				req.Filters, asked, losses = append(req.Filters, exactly(&b)), append(asked, b), append(losses, b.String())
			}
		}
		if len(asked) == 0 {
			return a.PrintOutcomes(&out)
		}
		if err := a.Confirm(fmt.Sprintf("remove %d access rules", len(asked)), "acl add adds them again.", losses); err != nil {
			return err
		}
		resp, err := req.RequestWith(cmd.Context(), cl)
		if err != nil {
			return app.Refused("remove ACLs", app.Needs(app.BrokerError(err), app.OnCluster("alter")), "")
		}
		var results []result
		for _, r := range resp.Results {
			results = append(results, result{r.ErrorCode, r.ErrorMessage})
		}
		return report(a, &out, "remove", "removed", asked, results)
	})
	x.flags(c)
	return c
}

// exactly returns the filter that selects one rule.
func exactly(b *acl.Binding) kmsg.DeleteACLsRequestFilter {
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourceName, f.ResourcePatternType = kmsg.ACLResourceType(b.Type), &b.Name, kmsg.ACLResourcePatternType(b.Pattern)
	f.Principal, f.Host, f.Operation, f.PermissionType = &b.Principal, &b.Host, kmsg.ACLOperation(b.Operation),
		kmsg.ACLPermissionType(b.Permission)
	return f
}
