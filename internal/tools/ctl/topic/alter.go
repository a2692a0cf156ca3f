package topic

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/config"
	"github.com/chronik-io/chronik/internal/tools/ctl/move"
)

func alter(a *app.App) *cobra.Command {
	var set, unset []string
	var o move.Options
	var factor int
	c := &cobra.Command{
		Use: "alter NAME...", Short: "Change configs and the number of replicas of topics", Args: app.Args(1, -1, "at least one topic"),
		ValidArgsFunction: a.Topics(0),
		Long: "alter sets configs of topics, or resets them to their defaults, atomically per topic. config set does the same for one topic or broker,\n" +
			"and asks in the same way if records fall out of logs at once.\n" +
			"With --replication-factor it adds replicas on the brokers that have the fewest, or removes those on the brokers that have the most,\n" +
			"first on brokers that are not active. " + move.Help,
		Example: "  chronikctl topic alter orders --config retention.ms=1d --unset segment.bytes\n" +
			"  chronikctl topic alter orders --replication-factor 3",
		RunE: func(cmd *cobra.Command, names []string) error {
			switch {
			case cmd.Flags().Changed("replication-factor") && len(set)+len(unset) > 0:
				return app.Usage("give --replication-factor alone: it is a request of its own")
			case factor > 0:
				return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, names []string) error {
					return replicate(ctx, a, adm, cl, names, factor, o)
				})(cmd, names)
			case len(set)+len(unset) == 0:
				return app.Usage("nothing to change: give --config name=value, --unset name or --replication-factor n")
			}
			return config.Change(cmd.Context(), a, config.Topics(names),
				config.Edit{Set: set, Flag: "--config ", Unset: unset, DryRun: o.DryRun})
		},
	}
	c.Flags().StringArrayVarP(&set, "config", "c", nil, "config name=value to set; repeatable")
	c.Flags().StringArrayVar(&unset, "unset", nil, "config to reset to its default; repeatable")
	cli.AtLeast(1).Flag(c.Flags(), &factor, "replication-factor", "", 0, "number of replicas of each partition")
	o.Flags(c)
	app.CompleteFlag(c, "config", config.TopicKeys(a, "="))
	app.CompleteFlag(c, "unset", config.TopicKeys(a, ""))
	cli.Instead(c, map[string]string{"--partitions": "chronikctl topic add-partitions NAME --to N adds partitions"})
	return c
}

// replicate gives topics another number of replicas.
func replicate(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, names []string, factor int, o move.Options) error {
	topics, missing, err := app.FindTopics(ctx, adm, names, false)
	if err != nil {
		return err
	}
	plan, _, err := move.Read(ctx, adm)
	if err != nil {
		return err
	}
	var out app.Outcomes
	for _, t := range topics {
		before := len(plan.Moves())
		switch err := plan.SetFactor(t.Topic, factor); {
		case err != nil:
			return app.WithCode(app.ExitFailed, err)
		case len(plan.Moves()) == before:
			out.Done(t.Topic, "has replication factor %d", factor)
		}
	}
	for _, name := range names {
		if e, ok := missing[name]; ok {
			out.Refused(name, "change the replicas of "+name, e, "")
		}
	}
	err = plan.Run(ctx, a, adm, cl, o, &out)
	return errors.Join(a.PrintOutcomes(&out), err)
}
