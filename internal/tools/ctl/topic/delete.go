package topic

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

func remove(a *app.App) *cobra.Command {
	var dryRun, regex bool
	c := &cobra.Command{
		Use: "delete NAME...", Short: "Delete topics and all their records", Args: app.Args(1, -1, "at least one topic"),
		ValidArgsFunction: a.Topics(0),
		Long:              "delete removes topics and all their records. It lists the losses and asks; --yes confirms, --dry-run only lists.",
		Example:           "  chronikctl topic delete orders\n  chronikctl topic delete --regex 'tmp-.*' --dry-run",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, names []string) error {
			topics, missing, err := app.FindTopics(ctx, adm, names, regex)
			if err != nil {
				return err
			}
			f, err := askHoldings(ctx, adm, topics)
			if err != nil {
				return err
			}
			var out app.Outcomes
			var losses, left []string
			for _, t := range topics {
				d := f.describe(t)
				left = append(left, t.Topic)
				losses = append(losses, fmt.Sprintf("%s: %s, %s offsets", t.Topic, text.Count(len(d.Partitions), "partition"),
					text.Number(d.Records)))
			}
			if dryRun {
				for i, name := range left {
					out.Done(name, "would be deleted%s", losses[i][len(name):])
				}
				left = nil
			}
			if len(left) > 0 {
				if err := a.Confirm("delete "+text.Count(len(left), "topic"), app.Irreversible, losses); err != nil {
					return err
				}
				deleteTopics(ctx, adm, left, &out)
			}
			for _, name := range names {
				if e, ok := missing[name]; ok {
					out.Refused(name, "delete "+name, e, "")
				}
			}
			return a.PrintOutcomes(&out)
		}),
	}
	c.Flags().BoolVarP(&regex, "regex", "r", false, app.RegexHelp)
	c.Flags().BoolVar(&dryRun, "dry-run", false, dryRunDoc)
	return c
}

func deleteTopics(ctx context.Context, adm *kadm.Client, names []string, out *app.Outcomes) {
	deleted, err := adm.DeleteTopics(ctx, names...)
	for _, name := range names {
		r := deleted[name]
		if err != nil {
			r.Err = app.BrokerError(err)
		}
		if r.Err != nil {
			out.Refused(name, "delete "+name, app.Needs(r.Err, app.OnTopic("delete", name)), r.ErrMessage)
			continue
		}
		out.Done(name, "deleted")
	}
}
