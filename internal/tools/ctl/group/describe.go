package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

func describe(a *app.App) *cobra.Command {
	var every bool
	c := &cobra.Command{
		Use: "describe GROUP...|--all", Short: "Show state, members, offsets and lag", Args: someOrAll(&every),
		ValidArgsFunction: a.Groups(0),
		Example:           "  chronikctl group describe audit\n  chronikctl group describe --all --watch",
		Long: "describe shows the position and lag of a group in every partition of its topics. The lag of a\n" +
			"partition without a committed offset counts from the start of the log, if the partition is assigned to a member.\n" +
			"Otherwise it is unknown and not part of the total.\n" +
			"Of a share group, the position is the first offset that is not finished, and the lag has the records above it\n" +
			"that are not finished. The records in flight, redelivered and archived are those that the leaders of the\n" +
			"partitions have counted in memory; they need an admin port.",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, names []string) error {
			if every {
				groups, err := adm.ListGroups(ctx)
				if err != nil {
					return app.Refused("list groups", app.BrokerError(err), "")
				}
				names = groups.Groups()
			}
			all := []*described{}
			var tables []*output.Table
			var failed []error
			found, wrong := loadAll(ctx, a, adm, names)
			for _, name := range names {
				d, ok := found[name]
				if !ok {
					failed = append(failed, wrong[name])
					continue
				}
				all = append(all, d)
				tables = append(tables, d.tables()...)
			}
			if len(all) > 0 || every {
				failed = append([]error{a.Print(all, tables...)}, failed...)
			}
			return errors.Join(failed...)
		}),
	}
	c.Flags().BoolVar(&every, "all", false, "all groups of the cluster")
	return a.Watched(c)
}

// someOrAll requires either groups or --all.
func someOrAll(all *bool) cobra.PositionalArgs {
	some := app.Args(1, -1, "at least one group, or --all")
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case *all && len(args) > 0:
			return app.Usage("--all and %q exclude each other", args[0])
		case *all:
			return nil
		}
		return some(cmd, args)
	}
}

// tables formats a group for people.
func (d *described) tables() []*output.Table {
	head := []string{"group " + d.Group, d.State, d.Type, fmt.Sprintf("coordinator %d", d.Coordinator),
		text.Count(len(d.Members), "member"), fmt.Sprintf("lag %d", d.Lag)}
	if d.Assignor != "" {
		head = append(head, "assignor "+d.Assignor)
	}
	if d.Epoch != nil {
		head = append(head, fmt.Sprintf("epoch %d", *d.Epoch))
	}
	t := d.table(strings.Join(head, "  "))
	if len(d.Members) == 0 {
		return []*output.Table{t}
	}
	m := &output.Table{Columns: []string{"MEMBER", "CLIENT", "HOST", "+INSTANCE", "PARTITIONS#", "+ASSIGNMENT"}}
	for _, x := range d.Members {
		n := 0
		var parts []string
		for _, topic := range slices.Sorted(maps.Keys(x.Assignment)) {
			n += len(x.Assignment[topic])
			parts = append(parts, topic+":"+text.Numbers(x.Assignment[topic]))
		}
		m.Add(x.ID, x.Client, x.Host, x.Instance, n, strings.Join(parts, " "))
	}
	return []*output.Table{t, m}
}

// table formats the partitions of a group.
func (d *described) table(title string) *output.Table {
	if d.Type == typeShare {
		return d.shareTable(title)
	}
	t := &output.Table{Title: title, Empty: "no offsets and nothing assigned",
		Columns: []string{"TOPIC", "PARTITION#", "COMMITTED#", "+START#", "END#", "LAG#", "CLIENT", "+MEMBER", "HOST", "+METADATA",
			"+ERROR"}}
	for _, p := range d.Partitions {
		t.Add(p.Topic, p.Partition, known(p.Committed), known(p.Start), known(p.End), known(p.Lag), p.Client, p.Member, p.Host, p.Metadata,
			p.Error)
	}
	return t
}

func known(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
