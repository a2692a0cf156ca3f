package cluster

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// examination is one run of doctor.
type examination struct {
	*Checkup
	doctorFlags
	a    *app.App
	adm  *kadm.Client
	cl   *kgo.Client
	port *app.AdminPort // nil for none
}

type doctorFlags struct {
	wait  time.Duration
	probe bool
}

// NewDoctor returns the command doctor.
func NewDoctor(a *app.App) *cobra.Command {
	var f doctorFlags
	c := &cobra.Command{
		Use: "doctor", Short: "Find problems, from here and from the broker's side", Args: app.Args(0, 0, "no argument"),
		Example: "  chronikctl doctor\n  chronikctl doctor --probe-disk --wait 0s",
		Long: "doctor runs the checks of cluster health and more. It checks from this machine whether each advertised address can be\n" +
			"reached and whether the clocks agree. It finds configs that contradict each other, groups that are stuck and transactions that hang. It\n" +
			"also prints the measurements of a chronik broker's checks (docs/operations.md lists them). Each finding has a remedy.\n" +
			"bad: some records cannot be written or read. warn: a guarantee is not met, or the problem becomes\n" +
			"bad if it grows or if something else fails. note: everything works as configured, but the operator should know. It\n" +
			"exits with 4 if there are findings other than notes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.wait < 0 || f.wait > time.Hour {
				return app.Usage("--wait %v is not between 0s and 1h", f.wait)
			}
			if f.probe && app.AdminPortOf(a) == nil {
				return app.Usage("--probe-disk needs the broker's admin port; give it with --admin HOST:PORT")
			}
			return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, _ []string) error {
				return examine(ctx, a, adm, cl, f)
			})(cmd, args)
		},
	}
	c.Flags().BoolVar(&f.probe, "probe-disk", false,
		"let the broker measure fdatasync on its disks: a few seconds of small writes to unnamed files")
	c.Flags().DurationVar(&f.wait, "wait", 3*time.Second, "how long to watch groups for progress")
	return c
}

func examine(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, f doctorFlags) error {
	c, err := NewCheckup(ctx, adm)
	if err != nil {
		return err
	}
	x := &examination{Checkup: c, a: a, adm: adm, cl: cl, port: app.AdminPortOf(a), doctorFlags: f}
	if err := c.Ended(ctx, x.everything(ctx)); err != nil {
		return err
	}
	return c.Report(a)
}

// everything runs all checks until one returns an error.
func (x *examination) everything(ctx context.Context) error {
	x.addresses(ctx)
	if err := x.Health(ctx, x.port, x.broker); err != nil {
		return err
	}
	x.clock(ctx)
	if err := x.configs(ctx); err != nil {
		return err
	}
	x.transactions(ctx)
	return x.groups(ctx)
}
