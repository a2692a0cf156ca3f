package topic

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/ctl/cli"
	"github.com/chronik-io/chronik/internal/ctl/output"
)

// listed is one topic of list.
type listed struct {
	Topic       string `json:"topic"`
	Partitions  int    `json:"partitions"`
	Replication int    `json:"replicationFactor"`
	ID          string `json:"id,omitempty"`
	Internal    bool   `json:"internal"`
}

func list(a *cli.App) *cobra.Command {
	var internal, names bool
	c := &cobra.Command{
		Use: "list", Short: "List topics", Args: cli.Args(0, 0, "no argument"),
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
			ask := adm.ListTopics
			if internal {
				ask = adm.ListTopicsWithInternal
			}
			topics, err := ask(ctx)
			if err != nil {
				return cli.Refused("list topics", cli.Words(err), "")
			}
			t := &output.Table{Columns: []string{"TOPIC", "PARTITIONS#", "REPLICAS#", "+ID", "+INTERNAL"}, Empty: "no topics"}
			all := []listed{}
			for _, x := range topics.Sorted() {
				if names {
					if _, err := fmt.Fprintln(a.Out, x.Topic); err != nil {
						return fmt.Errorf("standard output: %w", err)
					}
					continue
				}
				l := listed{x.Topic, len(x.Partitions), x.Partitions.NumReplicas(), id(x.ID), x.IsInternal}
				all = append(all, l)
				t.Add(l.Topic, l.Partitions, l.Replication, l.ID, l.Internal)
			}
			if names {
				return nil
			}
			return a.Print(all, t)
		}),
	}
	c.Flags().BoolVar(&internal, "internal", false, "internal topics too")
	c.Flags().BoolVar(&names, "names", false, "only the names, one a line, for scripts")
	return c
}
