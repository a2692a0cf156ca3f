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
	Size        *int64 `json:"sizeBytes"` // of all replicas; nil where the broker does not say
}

// sizes adds up what each topic has on the disks of all brokers. It is nil where
// the broker does not say.
func sizes(ctx context.Context, adm *kadm.Client) (map[string]int64, error) {
	dirs, err := adm.DescribeAllLogDirs(ctx, nil)
	if err = cli.Words(err); cli.IsUnsupported(err) {
		return nil, nil
	}
	if err != nil {
		return nil, cli.Refused("sizes of topics", err, "")
	}
	all := map[string]int64{}
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) { all[p.Topic] += p.Size })
	})
	return all, nil
}

func list(a *cli.App) *cobra.Command {
	var internal, names bool
	c := &cobra.Command{
		Use: "list", Short: "List topics; with -o wide how large they are, too", Args: cli.Args(0, 0, "no argument"),
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
			ask := adm.ListTopics
			if internal {
				ask = adm.ListTopicsWithInternal
			}
			topics, err := ask(ctx)
			if err != nil {
				return cli.Refused("list topics", cli.Words(err), "")
			}
			var bytes map[string]int64
			if !names && a.Format() != output.Text {
				if bytes, err = sizes(ctx, adm); err != nil {
					return err
				}
			}
			t := &output.Table{Columns: []string{"TOPIC", "PARTITIONS#", "REPLICAS#", "+SIZE#", "+ID", "+INTERNAL"}, Empty: "no topics"}
			all := []listed{}
			for _, x := range topics.Sorted() {
				if names {
					if _, err := fmt.Fprintln(a.Out, x.Topic); err != nil {
						return fmt.Errorf("standard output: %w", err)
					}
					continue
				}
				l := listed{Topic: x.Topic, Partitions: len(x.Partitions), Replication: x.Partitions.NumReplicas(), ID: id(x.ID), Internal: x.IsInternal}
				if bytes != nil {
					n := bytes[x.Topic]
					l.Size = &n
				}
				all = append(all, l)
				t.Add(l.Topic, l.Partitions, l.Replication, size(l.Size), l.ID, l.Internal)
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
