package acl

import (
	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

func list(a *app.App) *cobra.Command {
	var who, host, op, permission string
	c := &cobra.Command{
		Use: "list [RESOURCE]", Short: "List access rules", Args: app.Args(0, 1, "at most one RESOURCE"),
		Long: "list shows the access rules, with a RESOURCE those that apply to it: also rules of " +
			"prefixes and of all names.\n" + resourceHelp,
		Example: "  chronikctl acl list\n  chronikctl acl list topic:orders --operation read\n" +
			"  chronikctl acl list --principal bob -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			f := acl.AllBindings()
			if len(args) > 0 {
				t, name, err := resource(args[0])
				if err != nil {
					return err
				}
				f.Type, f.Name, f.Pattern = t, &name, acl.Match
			}
			if who != "" {
				who = principal(who)
				f.Principal = &who
			}
			if host != "" {
				f.Host = &host
			}
			var err error
			if f.Operation, err = acl.ParseOperation(op); err != nil {
				return app.Usage("--operation: %w", err)
			}
			if f.Permission, err = acl.ParsePermission(permission); err != nil {
				return app.Usage("--permission: %w", err)
			}
			cl, err := a.Requests(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			rules, err := fetch(cmd.Context(), cl, &f)
			if err != nil {
				return err
			}
			all, t := table(rules, "no rules")
			return a.Print(all, t)
		},
	}
	c.Flags().StringVar(&who, "principal", "", "only rules of this user, or principal such as User:*")
	c.Flags().StringVar(&host, "host", "", "only rules of this host; * for those of every host")
	c.Flags().StringVar(&op, "operation", "any", "only rules of this operation, such as read, or any")
	c.Flags().StringVar(&permission, "permission", "any", "only rules with this permission: allow, deny or any")
	app.CompleteFlag(c, "permission", app.OneOf("allow", "deny", "any"))
	return c
}
