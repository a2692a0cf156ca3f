// Package top implements chronikctl top: brokers, topics, groups and clients with their rates.
//
// A collector samples counters (collect.go), two samples give rates (rates.go), and tables.go
// prints them. Any Kafka broker provides the data on topics and groups, and each broker of chronik
// what it does itself; clients come from chronik's admin port. A rate is unknown, and never 0, if
// one of the samples lacks its counter. What is new since the first sample has begun with 0. The
// package knows no component of a broker.
package top

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Bounds of the time between two samples.
const (
	defaultInterval = 2 * time.Second
	minInterval     = 100 * time.Millisecond
	maxInterval     = time.Minute
)

// New returns the command top.
func New(a *app.App) *cobra.Command {
	t := &top{a: a}
	c := &cobra.Command{
		Use: "top", Short: "Show brokers, topics, groups and clients with their rates", Args: app.Args(0, 0, "no argument"),
		Long: "top measures for an interval what brokers, topics, groups and clients do, and prints the busiest of each first. With --watch it\n" +
			"repeats, and each measurement begins where the one before ended. Clients are those of the broker behind chronik's admin port\n" +
			"(--admin). -o json and -o yaml have all topics, groups and clients.",
		Example: "  chronikctl top\n  chronikctl top --watch\n  chronikctl top -o json | jq '.clients[0]'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.Both(t.run)(cmd, nil)
		},
	}
	cli.Between(minInterval, maxInterval).Flag(c.Flags(), &t.interval, "interval", "", defaultInterval,
		"time between the first two samples")
	cli.AtLeast(1).Or(0, "all").Flag(c.Flags(), &t.limit, "limit", "", 5, "rows of each table")
	c.Flags().BoolVar(&t.internal, "internal", false, "include internal topics")
	cli.Instead(c, map[string]string{"--once": "top measures once; --watch repeats it"})
	return a.Watched(c)
}

// top is the command.
type top struct {
	a        *app.App
	interval time.Duration
	limit    int
	internal bool
	before   *sample // of the previous measurement with --watch
	said     bool    // that brokers cannot be asked at this address; it stays so
}

// run prints a measurement.
func (t *top) run(ctx context.Context, adm *kadm.Client, cl *kgo.Client, _ []string) error {
	k := &collector{a: t.a, adm: adm, cl: cl, port: app.AdminPortOf(t.a)}
	r, failed, err := t.measure(ctx, k.sample)
	if err != nil {
		return err
	}
	if !t.internal {
		r.hideInternal()
	}
	r.sort()
	for _, why := range r.Missing {
		if why == r.elsewhere {
			if t.said {
				continue
			}
			t.said = true
		}
		t.a.Note("note: %s", why)
	}
	if err := t.a.Print(r, r.tables(t.limit)...); err != nil || !failed {
		return err
	}
	return errors.New("some data could not be fetched, see above")
}

// measure returns the rates since the previous measurement, or those of an interval if there was
// none. failed reports that a part is missing because the broker did not answer.
func (t *top) measure(ctx context.Context, ask func(context.Context) (*sample, error)) (r *Rates, failed bool, err error) {
	if t.before == nil {
		if t.before, err = ask(ctx); err != nil {
			return nil, false, err
		}
		if pause.Sleep(ctx, t.interval) != nil {
			return nil, false, errors.New("interrupted before the end of the interval")
		}
	}
	now, err := ask(ctx)
	if err != nil {
		return nil, false, err
	}
	r = compare(t.before, now)
	t.before = now
	return r, now.failed, nil
}
