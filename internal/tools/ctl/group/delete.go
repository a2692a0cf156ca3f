package group

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

func remove(a *app.App) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "delete GROUP...", Short: "Delete groups and all their offsets", Args: app.Args(1, -1, "at least one group"),
		ValidArgsFunction: a.Groups(0),
		Example:           "  chronikctl group delete audit --dry-run\n  chronikctl group delete audit --yes",
		Long:              "delete removes groups without members and all their offsets. It lists the losses and asks; --yes confirms, --dry-run only lists.",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, names []string) error {
			var out app.Outcomes
			var left, losses []string
			for _, name := range names {
				d, err := load(ctx, a, adm, name)
				switch {
				case err != nil:
					out.Failed(name, fmt.Errorf("delete %w", err))
				case len(d.Members) > 0:
					out.Refused(name, "delete group "+name, kerr.NonEmptyGroup, "it has "+text.Count(len(d.Members), "member"))
				case dryRun:
					out.Done(name, "would be deleted: %s", text.Count(d.committed(), "offset"))
				default:
					left = append(left, name)
					losses = append(losses, name+": "+text.Count(d.committed(), "offset"))
				}
			}
			if len(left) > 0 {
				if err := a.Confirm("delete "+text.Count(len(left), "group"), exportFirst, losses); err != nil {
					return err
				}
				deleteGroups(ctx, adm, left, &out)
			}
			return a.PrintOutcomes(&out)
		}),
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, dryRunDoc)
	return c
}

// committed returns the number of committed offsets.
func (d *described) committed() (n int) {
	for _, p := range d.Partitions {
		if p.Committed != nil {
			n++
		}
	}
	return n
}

func deleteGroups(ctx context.Context, adm *kadm.Client, names []string, out *app.Outcomes) {
	answers, err := adm.DeleteGroups(ctx, names...)
	for _, name := range names {
		r, ok := answers[name]
		switch {
		case !ok && err != nil:
			r.Err = app.BrokerError(err)
		case !ok:
			r.Err = kerr.UnknownServerError
		}
		if r.Err != nil {
			out.Refused(name, "delete group "+name, app.Needs(r.Err, app.OnGroup("delete", name)), r.ErrMessage)
			continue
		}
		out.Done(name, "deleted")
	}
}

func deleteOffsets(a *app.App) *cobra.Command {
	var topics []string
	var dryRun bool
	c := &cobra.Command{
		Use: "delete-offsets GROUP", Short: "Delete a group's offsets of topics", Args: app.Args(1, 1, "one group"),
		ValidArgsFunction: a.Groups(1),
		Example:           "  chronikctl group delete-offsets audit --topic orders:0 --dry-run",
		Long:              "delete-offsets deletes the committed offsets of topics that no member of the group reads. It lists the losses and asks;\n--yes confirms, --dry-run only lists.",
		RunE: func(cmd *cobra.Command, names []string) error {
			only := map[string][]int32{}
			for _, s := range topics {
				topic, partitions, err := parse.TopicPartitions(s)
				if err != nil {
					return app.Usage("--topic %w", err)
				}
				only[topic] = append(only[topic], partitions...)
			}
			if len(only) == 0 {
				return app.Usage("--topic is missing: TOPIC or TOPIC:PARTITIONS; it may be repeated")
			}
			return a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
				return forget(ctx, a, adm, names[0], only, dryRun)
			})(cmd, names)
		},
	}
	c.Flags().StringArrayVar(&topics, "topic", nil, "TOPIC or TOPIC:PARTITIONS; repeatable")
	c.Flags().BoolVar(&dryRun, "dry-run", false, dryRunDoc)
	app.CompleteFlag(c, "topic", a.Topics(0))
	return c
}
