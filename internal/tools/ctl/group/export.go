package group

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// exportFirst is the way back for changes of offsets.
const exportFirst = "Offsets can be restored only from a file that chronikctl group export wrote before."

func export(a *app.App) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "export GROUP...", Short: "Print the offsets of groups, for reset --from-file", ValidArgsFunction: a.Groups(-1),
		Long: "export prints the committed offsets of a group as lines TOPIC,PARTITION,OFFSET. With several groups, or --all,\n" +
			"the lines are GROUP,TOPIC,PARTITION,OFFSET. group reset --from-file reads both formats, on this cluster or on\n" +
			"another, and so does Kafka's kafka-consumer-groups --reset-offsets --from-file. group reset also reads what that\n" +
			"tool exports. The offsets are correct on another cluster only if it has the same records at the same offsets.",
		Example: "  chronikctl group export audit > audit.csv\n  chronikctl --context new group reset audit --from-file audit.csv\n  chronikctl group export --all > groups.csv",
		Args:    someOrAll(&all),
	}
	c.Flags().BoolVar(&all, "all", false, "all groups of the cluster")
	c.RunE = a.Admin(func(ctx context.Context, adm *kadm.Client, names []string) error {
		if all {
			groups, err := adm.ListGroups(ctx)
			if err != nil {
				return app.Refused("list groups", app.BrokerError(err), "")
			}
			names = groups.Groups()
		}
		list, err := exported(ctx, a, adm, names, all || len(names) > 1)
		return errors.Join(printOffsets(a, list), err)
	})
	return c
}

// exported returns the committed offsets of groups, with the groups' names if named. A group
// without offsets is an error, but does not hide the others.
func exported(ctx context.Context, a *app.App, adm *kadm.Client, names []string, named bool) (list []parse.TopicOffset, err error) {
	for _, name := range names {
		var found kadm.OffsetResponses
		e := a.WhenReady(ctx, func() (err error) {
			found, err = adm.FetchOffsets(ctx, name)
			return err
		})
		if errors.Is(e, kerr.GroupIDNotFound) {
			if d, e2 := load(ctx, a, adm, name); e2 == nil && d.Type == typeShare {
				list = append(list, d.exported(named)...)
				continue
			}
		}
		if e != nil {
			err = errors.Join(err, app.Refused("offsets of group "+name, app.BrokerError(e), ""))
			continue
		}
		before := len(list)
		for _, o := range found.Sorted() {
			switch {
			case o.Err != nil:
				err = errors.Join(err, app.Refused(fmt.Sprintf("offset of group %s: %s partition %d", name, o.Topic, o.Partition), o.Err,
					""))
			case o.At >= 0 && named:
				list = append(list, parse.TopicOffset{Group: name, Topic: o.Topic, Partition: o.Partition, Offset: o.At})
			case o.At >= 0:
				list = append(list, parse.TopicOffset{Topic: o.Topic, Partition: o.Partition, Offset: o.At})
			}
		}
		if len(list) == before && len(found) == 0 {
			err = errors.Join(err, app.Refused("export group "+name, kerr.GroupIDNotFound, "it has no offsets"))
		}
	}
	return list, err
}

// exported returns the positions of a share group, with its name if named.
func (d *described) exported(named bool) (list []parse.TopicOffset) {
	for _, p := range d.Partitions {
		if p.Committed == nil {
			continue
		}
		o := parse.TopicOffset{Topic: p.Topic, Partition: p.Partition, Offset: *p.Committed}
		if named {
			o.Group = d.Group
		}
		list = append(list, o)
	}
	return list
}

// printOffsets prints the offsets as a file, or in the requested format.
func printOffsets(a *app.App, list []parse.TopicOffset) error {
	if f := a.Format(); f == output.JSON || f == output.YAML {
		if list == nil {
			list = []parse.TopicOffset{}
		}
		return a.Print(list)
	}
	return parse.WriteOffsets(a.Out, list)
}
