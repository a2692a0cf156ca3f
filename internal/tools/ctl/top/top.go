// Package top implements chronikctl top: brokers, topics, groups and clients with their rates,
// in a terminal or once as a table or JSON.
//
// A collector samples counters (collect.go), two samples give rates (rates.go), and view.go and
// grid.go draw them. Keys change what is shown (state.go). Any Kafka broker provides the data on
// topics and groups; clients and broker metrics come from chronik's admin port.
package top

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// Bounds of the time between two samples.
const (
	defaultInterval = 2 * time.Second
	minInterval     = 100 * time.Millisecond
	maxInterval     = time.Minute
)

// New returns the command top.
func New(a *app.App) *cobra.Command {
	interval := parse.DurationFlag(defaultInterval)
	var once, internal bool
	c := &cobra.Command{
		Use: "top", Short: "Show brokers, topics, groups and clients with their rates", Args: app.Args(0, 0, "no argument"),
		Long: "top shows what brokers, topics, groups and clients do, the busiest first, and repeats after each interval. Keys sort,\n" +
			"pause and select; ? lists them, q quits. If a broker is unavailable, top waits for it. With --once, -o json or -o\n" +
			"yaml, or if standard output is not a terminal, it measures one interval, prints all tables and exits. Clients and the\n" +
			"requests of brokers require chronik's admin port (--admin).",
		Example: "  chronikctl top\n  chronikctl top --once --interval 5s\n  chronikctl top -o json | jq '.clients[0]'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			every := interval.Value()
			if every < minInterval || every > maxInterval {
				return app.Usage("--interval %v is not between %v and %v", every, minInterval, maxInterval)
			}
			return a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
				k := &collector{a: a, adm: adm, port: app.AdminPortOf(a)}
				in, isFile := a.In.(*os.File)
				if !once && a.Format().ForPeople() && isFile && cli.IsTerminal(in) && cli.IsTerminal(a.Out) {
					return watch(ctx, a, k, in, state{view: all, every: every, internal: internal})
				}
				return measureOnce(ctx, a, k, every, internal)
			})(cmd, nil)
		},
	}
	c.Flags().Var(&interval, "interval", "time between two samples, 100ms to 1m")
	c.Flags().BoolVar(&once, "once", false, "measure one interval, print the tables, and exit")
	c.Flags().BoolVar(&internal, "internal", false, "include internal topics")
	return c
}

// measureOnce prints the rates of one interval.
func measureOnce(ctx context.Context, a *app.App, k *collector, every time.Duration, internal bool) error {
	before, err := k.sample(ctx)
	if err != nil {
		return err
	}
	t := time.NewTimer(every)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return errors.New("interrupted before the end of the interval")
	}
	now, err := k.sample(ctx)
	if err != nil {
		return err
	}
	r := compare(before, now)
	if !internal {
		r.hideInternal()
	}
	var tables []*output.Table
	for _, g := range r.grids() {
		g.sort(g.defaultSort, false)
		tables = append(tables, g.table())
	}
	for _, why := range r.Missing {
		a.Note("note: %s", why)
	}
	if err := a.Print(r, tables...); err != nil || !now.failed {
		return err
	}
	return errors.New("some data could not be fetched, see above")
}
