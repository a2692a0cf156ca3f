package acl

import (
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/ctl/output"
	"github.com/chronik-io/chronik/internal/security/acl"
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
		Long: "explain reads all access rules and decides as the broker does. It does not know the " +
			"broker's configuration: super-users may\n" +
			"do everything, and with allow.everyone.if.no.acl.found everybody may do what no rule is about.\n" + resourceHelp,
		Example: "  chronikctl acl explain bob read topic:orders\n  chronikctl acl explain bob write topic:orders --host 10.0.0.7 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			op, err := acl.ParseOperation(args[1])
			if err != nil || op <= acl.All {
				return app.Usage("%q is no single operation; see chronikctl acl add --help", args[1])
			}
			t, name, err := resource(args[2])
			if err != nil {
				return err
			}
			v := verdict{Principal: principal(args[0]), Host: host, Operation: written(op), Resource: written(t), Name: name}
			return withAll(cmd.Context(), a, func(_ *kgo.Client, all []acl.Binding) error {
				return v.print(a, acl.Compile(all, acl.Options{}).Explain(v.Principal, host, op, t, name))
			})
		},
	}
	c.Flags().StringVar(&host, "host", "127.0.0.1", "address of the user's client")
	return c
}

// print completes the verdict and prints it.
func (v *verdict) print(a *app.App, e acl.Explanation) error {
	v.Allowed, v.Why = e.Allowed, why(e.Reason)
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

// why says the reason of a decision.
func why(r acl.Reason) string {
	switch r {
	case acl.Denied:
		return "a rule denies it"
	case acl.Permitted:
		return "a rule allows it, and none denies it"
	}
	return "no rule allows it"
}
