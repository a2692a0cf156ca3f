package quota

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

func list(a *app.App) *cobra.Command {
	var w whom
	c := &cobra.Command{
		Use: "list", Short: "List quotas", Args: app.Args(0, 0, "no argument"),
		Long: "list shows the quotas that are set, with flags those of this user, client id or address: --user bob also shows\n" +
			"those of bob together with a client id. " + limitHelp,
		Example: "  chronikctl quota list\n  chronikctl quota list --user bob -o json\n  chronikctl quota list --client-id-default",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		e, err := w.entity(cmd)
		if err != nil {
			return err
		}
		return a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
			all, err := fetch(ctx, adm, e)
			if err != nil {
				return err
			}
			t := &output.Table{Columns: []string{"USER", "CLIENT-ID", "IP", "LIMIT", "VALUE#"}, Empty: "no quotas"}
			for _, x := range all {
				for _, name := range limitsOf(x) {
					t.Add(append(cells(x.of), name, number(x.Limits[name]))...)
				}
			}
			return a.Print(all, t)
		})(cmd, args)
	}
	w.flags(c)
	return a.Watched(c)
}
