package topic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// partitionTrim is the trim of one partition.
type partitionTrim struct {
	Partition int32  `json:"partition"`
	Start     int64  `json:"start"`    // log start offset before
	NewStart  int64  `json:"newStart"` // log start offset after; if it failed, the requested one
	End       int64  `json:"end"`
	Freed     *int64 `json:"freedBytes,omitempty"` // bytes that left the log; nil if unknown, and before the trim
	Error     string `json:"error,omitempty"`
}

func trim(a *app.App) *cobra.Command {
	var before, partitions string
	var dryRun bool
	c := &cobra.Command{
		Use: "trim NAME", Short: "Delete the records before an offset or a time", Args: app.Args(1, 1, "one topic"),
		ValidArgsFunction: a.Topics(1),
		Long: "trim moves the log start offset of a topic's partitions. Readers no longer see the records before it. Space is freed by whole\n" +
			"segments: a segment stays until all of its records are trimmed. FREED shows how many bytes left each log; the broker removes\n" +
			"the files after file.delete.delay.ms (default 1 minute). trim lists what it would delete and asks; --yes confirms,\n" +
			"--dry-run only lists.",
		Example: "  chronikctl topic trim orders --before 7d\n  chronikctl topic trim orders --before 1200 --partition 0,3",
		RunE: func(cmd *cobra.Command, names []string) error {
			if before == "" {
				return app.Usage("--before is missing: give an offset, latest for all records, or a time; see %s --help", cmd.CommandPath())
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
	cli.Instead(c, map[string]string{"--offset": "--before OFFSET deletes the records before it"})
	c.Flags().StringVar(&before, "before", "",
		"first record to keep: an offset, latest to delete all, -N to keep the last N, a time, or 7d to keep that much time")
	c.Flags().StringVarP(&partitions, "partition", "p", "", "only these partitions: 3 or 0,2,5-7")
	c.Flags().BoolVar(&dryRun, "dry-run", false, dryRunDoc)
	return c
}

// plan determines the new start of each partition.
func plan(ctx context.Context, adm *kadm.Client, topic string, some []int32, at parse.Position) ([]partitionTrim, error) {
	r, err := app.ListOffsets(ctx, adm, map[string][]int32{topic: some})
	if err != nil {
		return nil, fmt.Errorf("trim %w", err)
	}
	found, failed, err := r.Find(ctx, adm, at)
	if err = cmp.Or(err, failed.Err()); err != nil {
		return nil, fmt.Errorf("trim %w", err)
	}
	var cuts []partitionTrim
	for _, p := range r.Partitions(topic) {
		x := r[topic][p]
		to := max(found[topic][p], x.Start)
		if to > x.End {
			return nil, app.Refused(fmt.Sprintf("trim %s partition %d", topic, p), kerr.OffsetOutOfRange,
				fmt.Sprintf("offset %d is beyond the end, %d", to, x.End))
		}
		cuts = append(cuts, partitionTrim{Partition: p, Start: x.Start, NewStart: to, End: x.End})
	}
	return cuts, nil
}

func trimAll(ctx context.Context, a *app.App, adm *kadm.Client, topic string, cuts []partitionTrim, dryRun bool) error {
	var gone int64
	for _, c := range cuts {
		gone += c.NewStart - c.Start
	}
	if gone == 0 {
		a.Note("%s has no records before that: nothing is deleted", topic)
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
	if err := a.Confirm(fmt.Sprintf("delete up to %s records of %s", text.Number(gone), topic), app.Irreversible, losses); err != nil {
		return err
	}
	ask := kadm.Offsets{}
	for _, c := range cuts {
		if c.NewStart > c.Start {
			ask.AddOffset(topic, c.Partition, c.NewStart, -1)
		}
	}
	all := kadm.TopicsSet{}
	for _, c := range cuts {
		all.Add(topic, c.Partition)
	}
	before := app.LogSizes(ctx, adm, all)[topic]
	answers, err := adm.DeleteRecords(ctx, ask)
	if err != nil && len(answers) == 0 {
		return app.Refused("trim "+topic, app.BrokerError(err), "")
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
			out.Refused(topic, what, app.Needs(r.Err, app.OnTopic("delete", topic)), "")
		default:
			c.NewStart = r.LowWatermark
		}
	}
	freed(cuts, before, app.LogSizes(ctx, adm, all)[topic])
	noteFreed(a, cuts)
	return errors.Join(printCuts(a, topic, "NEW START", cuts), out.Err())
}

// freed sets how many bytes left each log between two measurements. Records written meanwhile make
// the number smaller.
func freed(cuts []partitionTrim, before, after map[int32]app.LogSize) {
	for i := range cuts {
		c := &cuts[i]
		was, is := before[c.Partition], after[c.Partition]
		if was.Replicas > 0 && was.Replicas == is.Replicas && c.NewStart > c.Start && c.Error == "" {
			n := max(was.All-is.All, 0)
			c.Freed = &n
		}
	}
}

// noteFreed says when the disk gets the freed bytes back, or why there are none.
func noteFreed(a *app.App, cuts []partitionTrim) {
	if slices.ContainsFunc(cuts, func(c partitionTrim) bool { return c.Freed != nil && *c.Freed > 0 }) {
		a.Note("FREED is what left the logs; the broker removes the files from the disk after file.delete.delay.ms (default 1 minute)")
	}
	for _, c := range cuts {
		if c.Freed != nil && *c.Freed == 0 {
			a.Note(
				"partition %d: no bytes were freed, because the same segment holds records from offset %d on; --before latest deletes these too",
				c.Partition, c.NewStart)
			return // one partition is enough
		}
	}
}

func printCuts(a *app.App, topic, head string, cuts []partitionTrim) error {
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
