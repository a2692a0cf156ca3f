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
	var dryRun, regex, internal bool
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
				if why := stateIn(t.Topic); why != "" && !internal {
					out.Failed(t.Topic, fmt.Errorf("delete %s: it holds %s; --internal deletes it all the same", t.Topic, why))
					continue
				}
				d := f.describe(t)
				left = append(left, t.Topic)
				loss := fmt.Sprintf("%s: %s, %s offsets", t.Topic, text.Count(len(d.Partitions), "partition"), text.Number(d.Records))
				if why := stateIn(t.Topic); why != "" {
					loss += ", " + why
				}
				losses = append(losses, loss)
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
	c.Flags().BoolVar(&internal, "internal", false, "also delete topics with the state of groups, transactions or share groups")
	return c
}

// stateIn says what is lost with a topic in which the brokers keep the state of clients; empty for
// others.
func stateIn(topic string) string {
	switch topic {
	case "__consumer_offsets":
		return "the committed offsets of all groups, which then begin where auto.offset.reset says (chronikctl group export saves them)"
	case "__transaction_state":
		return "the state of all transactions, so that those that are open never end"
	case "__share_group_state":
		return "what all share groups have acknowledged, so that they get it again"
	}
	return ""
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
