package acl

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/view"
)

// verdict is the answer of explain.
type verdict struct {
	Principal string `json:"principal"`
	Host      string `json:"host"`
	Operation string `json:"operation"`
	Resource  string `json:"resource"` // its type
	Name      string `json:"name"`
	Allowed   bool   `json:"allowed"`
	Why       string `json:"why"`
	// Configured reports whether the broker's configuration was read at the admin port: super
	// users, internal topics, and whether requests need rights at all. Otherwise only the rules
	// decide.
	Configured bool `json:"configured"`
	// Rules are those that decide.
	Rules []entry `json:"rules"`
	// Almost are rules for the operation on the resource, but of other users or hosts.
	Almost []entry `json:"almost"`
}

func explain(a *app.App) *cobra.Command {
	var host string
	c := &cobra.Command{
		Use: "explain USER OPERATION RESOURCE", Short: "Explain what a user may do, and which rule decides",
		Args: app.Args(3, 3, "USER, OPERATION and RESOURCE"),
		Long: "explain reads all access rules and decides as the broker does. It reads the super users and " +
			"allow.everyone.if.no.acl.found\n" +
			"at the admin port (--admin). Without that port it says so, and decides by the rules only.\n" + resourceHelp,
		Example: "  chronikctl acl explain bob read topic:orders\n  chronikctl acl explain bob write topic:orders --host 10.0.0.7 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			op, err := acl.ParseOperation(args[1])
			if err != nil {
				return app.Usage("%w", err)
			}
			if op <= acl.All {
				return app.Usage("explain needs a single operation, and %q is several: name one of them", args[1])
			}
			t, name, err := resource(args[2])
			if err != nil {
				return err
			}
			v := verdict{Principal: principal(args[0]), Host: host, Operation: acl.Written(op), Resource: acl.Written(t), Name: name}
			return withAll(cmd.Context(), a, func(_ *kgo.Client, all []acl.Binding) error {
				return v.explain(cmd.Context(), a, all, op, t)
			})
		},
	}
	c.Flags().StringVar(&host, "host", "127.0.0.1", "address of the user's client")
	return c
}

// explain completes the verdict and prints it.
func (v *verdict) explain(ctx context.Context, a *app.App, all []acl.Binding, op acl.Operation, t acl.ResourceType) error {
	configured, err := configuration(ctx, a)
	if err != nil {
		return err
	}
	var e acl.Explanation
	if e, v.Why = configured.explain(all, v, op, t); !configured.known && !e.Allowed {
		v.Why += "; super users are not known " + app.NoAdminPort(a)
	}
	v.Allowed = e.Allowed
	v.Configured = configured.known
	var rules, almost *output.Table
	v.Rules, rules = table(e.Rules, "no rule decides")
	v.Almost, almost = table(e.Almost, "")
	summary := &output.Table{Columns: []string{"PRINCIPAL", "HOST", "OPERATION", "RESOURCE", "NAME", "ALLOWED", "WHY"}}
	summary.Add(v.Principal, v.Host, v.Operation, v.Resource, v.Name, map[bool]string{true: "yes", false: "no"}[v.Allowed], v.Why)
	tables := []*output.Table{summary, rules}
	if len(v.Almost) > 0 {
		almost.Title = "Rules for other users or hosts"
		tables = append(tables, almost)
	}
	return a.Print(v, tables...)
}

// configured is what of a broker's configuration decides, as its admin port shows it.
type configured struct {
	known bool
	view.Rights
}

// configuration asks the admin port. It is not known if the port is off or does not answer.
func configuration(ctx context.Context, a *app.App) (c configured, err error) {
	port := app.AdminPortOf(a)
	if port == nil {
		return c, nil
	}
	r, err := port.Rights(ctx)
	switch {
	case err == nil:
		return configured{true, *r}, nil
	case errors.Is(err, app.ErrNoAdminPort):
		return c, nil
	}
	return c, err
}

// explain decides as the broker does, and returns the reason. Two rights follow from others: create
// on the cluster allows every topic, and who may write to any topic may do so idempotently
// (KIP-679).
func (c *configured) explain(all []acl.Binding, v *verdict, op acl.Operation, t acl.ResourceType) (acl.Explanation, string) {
	if c.known && c.Authorization != "acl" {
		return acl.Explanation{Allowed: true, Reason: acl.Off}, why(acl.Off)
	}
	rules := acl.Compile(all, acl.Options{SuperUsers: c.SuperUsers, AllowEveryone: c.AllowEveryone, Internal: c.InternalTopics})
	e := rules.Explain(v.Principal, v.Host, op, t, v.Name)
	switch {
	case e.Allowed:
	case op == acl.Create && t == acl.Topic:
		if above := rules.Explain(v.Principal, v.Host, op, acl.Cluster, acl.ClusterName); above.Allowed {
			return above, "a rule on the cluster allows it"
		}
	case op == acl.IdempotentWrite && t == acl.Cluster && rules.Subject(v.Principal, v.Host).AllowedAny(acl.Write, acl.Topic):
		writes := slices.DeleteFunc(slices.Clone(all), func(b acl.Binding) bool {
			return b.Type != acl.Topic || b.Permission != acl.Allow || b.Operation != acl.Write && b.Operation != acl.All ||
				b.Principal != v.Principal && b.Principal != acl.Everybody
		})
		return acl.Explanation{Allowed: true, Rules: writes}, "a rule allows write on a topic, which includes it"
	}
	return e, why(e.Reason)
}

// why says the reason of a decision.
func why(r acl.Reason) string {
	switch r {
	case acl.Off:
		return "the broker has no authorization: acl, so everybody may"
	case acl.SuperUser:
		return "a super user may do everything"
	case acl.NoBinding:
		return "no rule is about it, and allow.everyone.if.no.acl.found is true"
	case acl.Denied:
		return "a rule denies it"
	case acl.Internal:
		return "only super users may change an internal topic"
	case acl.Permitted:
		return "a rule allows it, and none denies it"
	}
	return "no rule allows it"
}
