package topic

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

func addPartitions(a *app.App) *cobra.Command {
	var add, to int
	var dryRun bool
	c := &cobra.Command{
		Use: "add-partitions NAME...", Short: "Add partitions to topics", Args: app.Args(1, -1, "at least one topic"),
		ValidArgsFunction: a.Topics(0),
		Example:           "  chronikctl topic add-partitions orders --add 2\n  chronikctl topic add-partitions orders --to 24 --dry-run",
		Long: "add-partitions adds partitions to topics. This cannot be undone. New records with a key may go to another partition than\n" +
			"earlier records with the same key.",
		RunE: func(cmd *cobra.Command, names []string) error {
			if (add > 0) == (to > 0) {
				return app.Usage("give either --add, the number of new partitions, or --to, the new total")
			}
			return a.Admin(func(ctx context.Context, adm *kadm.Client, names []string) error {
				send, n := adm.CreatePartitions, add
				switch {
				case dryRun && to > 0:
					send, n = adm.ValidateUpdatePartitions, to
				case dryRun:
					send = adm.ValidateCreatePartitions
				case to > 0:
					send, n = adm.UpdatePartitions, to
				}
				return grow(ctx, a, adm, names, n, to, dryRun, send)
			})(cmd, names)
		},
	}
	cli.AtLeast(1).Flag(c.Flags(), &add, "add", "", 0, "number of partitions to add")
	cli.AtLeast(1).Flag(c.Flags(), &to, "to", "", 0, "total number of partitions afterwards")
	c.Flags().BoolVar(&dryRun, "dry-run", false, dryRunDoc)
	cli.Instead(c, map[string]string{"-n": newTotal, "-p": newTotal, "--partitions": newTotal})
	return c
}

// newTotal is the hint for --partitions, which says how many a new topic gets.
const newTotal = "topic add-partitions NAME --to N sets the new total, --add N adds that many"

// grow sends one request per topic, so that a failure does not affect the other topics.
func grow(ctx context.Context, a *app.App, adm *kadm.Client, names []string, n, to int, dryRun bool,
	send func(context.Context, int, ...string) (kadm.CreatePartitionsResponses, error),
) error {
	topics, missing, err := app.FindTopics(ctx, adm, names, false)
	if err != nil {
		return err
	}
	var out app.Outcomes
	for _, t := range topics {
		answers, err := send(ctx, n, t.Topic)
		r := answers[t.Topic]
		if err == nil {
			err = r.Err
		}
		if err != nil {
			out.Refused(t.Topic, "add partitions to "+t.Topic, app.BrokerError(err), r.ErrMessage)
			continue
		}
		total := to
		if to == 0 {
			total = len(t.Partitions) + n
		}
		verb := "has"
		if dryRun {
			verb = "would have"
		}
		out.Done(t.Topic, "%s %s", verb, text.Count(total, "partition"))
	}
	for _, name := range names {
		if e, ok := missing[name]; ok {
			out.Refused(name, "add partitions to "+name, e, "")
		}
	}
	return a.PrintOutcomes(&out)
}
