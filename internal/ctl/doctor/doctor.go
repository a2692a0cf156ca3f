// Package doctor is chronikctl doctor: it looks for what goes wrong before
// somebody notices, from here and, of chronik, from the broker's side.
//
// A finding says what is wrong, where, and what to do. addresses.go, clock.go,
// configs.go, groups.go and disks.go hold what is looked at beside what cluster
// health looks at. It changes nothing. internal/ctl calls New.
package doctor

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/ctl/adminport"
	"github.com/chronik-io/chronik/internal/ctl/cli"
	"github.com/chronik-io/chronik/internal/ctl/cluster"
)

// examination is one run.
type examination struct {
	*cluster.Checkup
	a    *cli.App
	adm  *kadm.Client
	port *adminport.Port // nil for none
	wait time.Duration
}

// New is the command.
func New(a *cli.App) *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use: "doctor", Short: "Look for what goes wrong, from here and from the broker's side", Args: cli.Args(0, 0, "no argument"),
		Long: "doctor looks at all that cluster health looks at, and further: can each advertised address be dialled from here, do the\n" +
			"clocks agree, do configs contradict each other, are groups stuck, do disks suit the durability profile. Each finding has\n" +
			"a remedy. It ends with 4 where it finds something.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait < 0 || wait > time.Hour {
				return cli.Usage("--wait %v is not between 0s and 1h", wait)
			}
			return a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
				return examine(ctx, a, adm, wait)
			})(cmd, args)
		},
	}
	c.Flags().DurationVar(&wait, "wait", 3*time.Second, "how long groups are watched for a sign of life")
	return c
}

func examine(ctx context.Context, a *cli.App, adm *kadm.Client, wait time.Duration) error {
	c, err := cluster.NewCheckup(ctx, adm)
	if err != nil {
		return err
	}
	x := &examination{Checkup: c, a: a, adm: adm, port: adminport.Of(a), wait: wait}
	x.addresses(ctx)
	if err := c.Health(ctx, x.port); err != nil {
		return err
	}
	x.clock(ctx)
	if err := x.configs(ctx); err != nil {
		return err
	}
	if err := x.groups(ctx); err != nil {
		return err
	}
	x.disks(ctx)
	return c.Report(a)
}
