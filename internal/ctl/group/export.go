package group

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/ctl/output"
	"github.com/chronik-io/chronik/internal/ctl/parse"
)

// exportFirst is the way back of what changes offsets.
const exportFirst = "Only what chronikctl group export has kept before can be set again."

func export(a *app.App) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "export GROUP...", Short: "Print the offsets of groups, for reset --from-file", ValidArgsFunction: a.Groups(-1),
		Long: "export prints where groups go on reading, one line TOPIC,PARTITION,OFFSET for each offset; with several groups, or --all,\n" +
			"lines GROUP,TOPIC,PARTITION,OFFSET. group reset --from-file reads both, here or on another cluster, and so does Kafka's\n" +
			"kafka-consumer-groups --reset-offsets --from-file; what that tool exports is read, too. Offsets are places in this\n" +
			"cluster's logs: they fit another one that has the same records at the same offsets.",
		Example: "  chronikctl group export audit > audit.csv\n  chronikctl --context new group reset audit --from-file audit.csv\n  chronikctl group export --all > groups.csv",
		Args:    someOrAll(&all),
	}
	c.Flags().BoolVar(&all, "all", false, "all groups of the cluster")
	c.RunE = a.Admin(func(ctx context.Context, adm *kadm.Client, names []string) error {
		if all {
			groups, err := adm.ListGroups(ctx)
			if err != nil {
				return app.Refused("list groups", app.Words(err), "")
			}
			names = groups.Groups()
		}
		list, err := exported(ctx, a, adm, names, all || len(names) > 1)
		return errors.Join(printOffsets(a, list), err)
	})
	return c
}

// exported are the offsets of groups, with the groups' names where these must be
// told. A group that has none is an error; the others are there all the same.
func exported(ctx context.Context, a *app.App, adm *kadm.Client, names []string, named bool) (list []parse.TopicOffset, err error) {
	for _, name := range names {
		var found kadm.OffsetResponses
		e := a.WhenReady(ctx, func() (err error) {
			found, err = adm.FetchOffsets(ctx, name)
			return err
		})
		if e != nil {
			err = errors.Join(err, app.Refused("offsets of group "+name, app.Words(e), ""))
			continue
		}
		before := len(list)
		for _, o := range found.Sorted() {
			switch {
			case o.Err != nil:
				err = errors.Join(err, app.Refused(fmt.Sprintf("offset of group %s: %s partition %d", name, o.Topic, o.Partition), o.Err, ""))
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

// printOffsets prints the file, or what programs want that asked for a format.
func printOffsets(a *app.App, list []parse.TopicOffset) error {
	if f := a.Format(); f == output.JSON || f == output.YAML {
		if list == nil {
			list = []parse.TopicOffset{}
		}
		return a.Print(list)
	}
	return parse.WriteOffsets(a.Out, list)
}
