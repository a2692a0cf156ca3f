package topic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/ctl/output"
	"github.com/chronik-io/chronik/internal/ctl/parse"
	"github.com/chronik-io/chronik/internal/text"
)

// cut is one partition of trim.
type cut struct {
	Partition int32  `json:"partition"`
	Start     int64  `json:"start"`    // before
	NewStart  int64  `json:"newStart"` // after; where it failed, what was asked for
	End       int64  `json:"end"`
	Freed     *int64 `json:"freedBytes,omitempty"` // what left the log; nil where it is not known, as before a trim
	Error     string `json:"error,omitempty"`
}

func trim(a *app.App) *cobra.Command {
	var before, partitions string
	var dryRun bool
	c := &cobra.Command{
		Use: "trim NAME", Short: "Delete the records before an offset or a time", Args: app.Args(1, 1, "one topic"), ValidArgsFunction: a.Topics(1),
		Long: "trim moves the start of a topic's partitions up: what lies before is gone at once for all readers, and its space is given\n" +
			"back by whole segments: records that share one with later records take space until those go, too. FREED shows how much\n" +
			"left each log. It shows what would go and asks first; --yes answers, --dry-run ends there.",
		Example: "  chronikctl topic trim orders --before 7d\n  chronikctl topic trim orders --before 1200 --partition 0,3",
		RunE: func(cmd *cobra.Command, names []string) error {
			if before == "" {
				return app.Usage("--before is missing: an offset, latest for everything, or a time; see %s --help", cmd.CommandPath())
			}
			at, err := parse.ReadPosition(before, time.Now())
			if err != nil {
				return app.Usage("--before %w", err)
			}
			some, err := parse.Partitions(partitions)
			if err != nil {
				return app.Usage("--partition %w", err)
			}
			return a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
				cuts, err := plan(ctx, adm, names[0], some, at)
				if err != nil {
					return err
				}
				return trimAll(ctx, a, adm, names[0], cuts, dryRun)
			})(cmd, names)
		},
	}
	c.Flags().StringVar(&before, "before", "", "delete what is before: an offset, latest for everything, -N to keep the last N, a time, or 7d for what is older than that")
	c.Flags().StringVarP(&partitions, "partition", "p", "", "only these partitions: 3 or 0,2,5-7")
	c.Flags().BoolVar(&dryRun, "dry-run", false, dryRunDoc)
	return c
}

// plan finds the new start of each partition.
func plan(ctx context.Context, adm *kadm.Client, topic string, some []int32, at parse.Position) ([]cut, error) {
	r, err := app.ListOffsets(ctx, adm, map[string][]int32{topic: some})
	if err != nil {
		return nil, fmt.Errorf("trim %w", err)
	}
	found, failed, err := r.Find(ctx, adm, at)
	if err = cmp.Or(err, failed.Err()); err != nil {
		return nil, fmt.Errorf("trim %w", err)
	}
	var cuts []cut
	for _, p := range r.Partitions(topic) {
		x := r[topic][p]
		to := max(found[topic][p], x.Start)
		if to > x.End {
			return nil, app.Refused(fmt.Sprintf("trim %s partition %d", topic, p), kerr.OffsetOutOfRange, fmt.Sprintf("offset %d is beyond the end, %d", to, x.End))
		}
		cuts = append(cuts, cut{Partition: p, Start: x.Start, NewStart: to, End: x.End})
	}
	return cuts, nil
}

func trimAll(ctx context.Context, a *app.App, adm *kadm.Client, topic string, cuts []cut, dryRun bool) error {
	var gone int64
	for _, c := range cuts {
		gone += c.NewStart - c.Start
	}
	if gone == 0 {
		a.Note("nothing of %s lies before that: nothing is deleted", topic)
	}
	if dryRun || gone == 0 {
		return printCuts(a, topic, "WOULD START", cuts)
	}
	var losses []string
	for _, c := range cuts {
		if c.NewStart > c.Start {
			losses = append(losses, fmt.Sprintf("%s partition %d: offsets %d to %d", topic, c.Partition, c.Start, c.NewStart-1))
		}
	}
	if err := a.Confirm(fmt.Sprintf("delete up to %s records of %s", text.Number(gone), topic), app.Final, losses); err != nil {
		return err
	}
	ask := kadm.Offsets{}
	for _, c := range cuts {
		if c.NewStart > c.Start {
			ask.AddOffset(topic, c.Partition, c.NewStart, -1)
		}
	}
	before := sizes(ctx, adm, topic, cuts)
	answers, err := adm.DeleteRecords(ctx, ask)
	if err != nil && len(answers) == 0 {
		return app.Refused("trim "+topic, app.Words(err), "")
	}
	var out app.Outcomes
	for i := range cuts {
		c := &cuts[i]
		r, ok := answers.Lookup(topic, c.Partition)
		switch what := fmt.Sprintf("trim %s partition %d", topic, c.Partition); {
		case c.NewStart == c.Start:
		case !ok:
			c.Error = "no answer"
			out.Failed(topic, fmt.Errorf("%s: the broker did not answer for it; try again", what))
		case r.Err != nil:
			c.Error = r.Err.Error()
			out.Refused(topic, what, r.Err, "")
		default:
			c.NewStart = r.LowWatermark
		}
	}
	freed(cuts, before, sizes(ctx, adm, topic, cuts))
	explainNothingFreed(a, cuts)
	return errors.Join(printCuts(a, topic, "NEW START", cuts), out.Err())
}

// sizes returns the bytes of partitions on all brokers; those that are not reported are missing.
func sizes(ctx context.Context, adm *kadm.Client, topic string, cuts []cut) map[int32]int64 {
	set := kadm.TopicsSet{}
	for _, c := range cuts {
		set.Add(topic, c.Partition)
	}
	dirs, err := adm.DescribeAllLogDirs(ctx, set)
	if err != nil {
		return nil // sizes are not what the command is for
	}
	found := map[int32]int64{}
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if p.Topic == topic && d.Err == nil && !p.IsFuture {
				found[p.Partition] += p.Size
			}
		})
	})
	return found
}

// freed sets what left each log between two looks at the sizes. Records that were written
// meanwhile make it smaller.
func freed(cuts []cut, before, after map[int32]int64) {
	for i := range cuts {
		c := &cuts[i]
		was, known := before[c.Partition]
		is, still := after[c.Partition]
		if known && still && c.NewStart > c.Start && c.Error == "" {
			n := max(was-is, 0)
			c.Freed = &n
		}
	}
}

// explainNothingFreed explains a trim that freed nothing.
func explainNothingFreed(a *app.App, cuts []cut) {
	for _, c := range cuts {
		if c.Freed != nil && *c.Freed == 0 {
			a.Note("partition %d: no bytes were freed, because records from %d on are in the same segment; they are freed together, "+
				"at once with --before latest, which deletes these too", c.Partition, c.NewStart)
			return // one partition is enough to know it
		}
	}
}

func printCuts(a *app.App, topic, head string, cuts []cut) error {
	t := &output.Table{Title: "topic " + topic, Columns: []string{"PARTITION#", "START#", head + "#", "END#", "FREED#", "+ERROR"}}
	for _, c := range cuts {
		size := ""
		if c.Freed != nil {
			size = text.Bytes(*c.Freed)
		}
		t.Add(c.Partition, c.Start, c.NewStart, c.End, size, c.Error)
	}
	return a.Print(cuts, t)
}
