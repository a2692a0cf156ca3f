// Package records implements chronikctl produce and chronikctl consume.
//
// produce exits with 0 only if the broker acknowledged every record. It keeps the order within a
// partition and names the input line in an error.
//
// consume without --follow prints the records that the topics hold when it starts, and exits. It
// keeps the order within a partition. It skips a partition that cannot be read, reads the others
// and reports the error at the end. It commits a group's offset only for printed records.
//
// Both need only Kafka's protocol, and know nothing of how a broker stores records.
package records

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// NewConsume returns the command consume.
func NewConsume(a *app.App) *cobra.Command {
	var o consumeOptions
	c := &cobra.Command{
		Use: "consume TOPIC...", Short: "Print the records of topics",
		Long: "consume prints the records that topics hold when the command starts. With --follow it\n" +
			"continues until it is interrupted. Records of one partition come in order. With several topics, each line\n" +
			"starts with its topic. With --group it reads as a member of that group and commits the offsets of the records that it\n" +
			"printed. With --isolation read-committed it leaves out the records of aborted transactions and stops before the first\n" +
			"open one. If a partition cannot be read, consume reads the others, reports the partition at the end, and exits with 1.\n\n" +
			formatHelp,
		Example: "  chronikctl consume orders --from 1h --follow\n  chronikctl consume orders --partition 0 --from 1200 --until 1300 -o json\n" +
			"  chronikctl consume orders --from -10 --format '%p:%o %k=%v\\n'\n" +
			"  chronikctl consume orders --group audit --group-protocol consumer --follow",
		Args: app.Args(1, -1, "the names of topics"), ValidArgsFunction: a.Topics(-1),
		RunE: func(cmd *cobra.Command, names []string) error {
			if cmd.Flags().Changed("group") && o.group == "" {
				return app.Usage("--group is empty; is a variable not set?")
			}
			for _, name := range names {
				if o.follow && !o.regex && strings.Contains(name, "%") {
					return app.Usage("%q is not the name of a topic: -f is --follow, which has no value; --format %q sets how a record is printed",
						name, name)
				}
			}
			if err := o.check(a.Format()); err != nil {
				return err
			}
			o.several = o.regex || len(names) > 1
			return runConsume(cmd.Context(), a, &o, names)
		},
	}
	o.flags(c, a)
	return c
}

func runConsume(ctx context.Context, a *app.App, o *consumeOptions, topics []string) error {
	r := newReader(a, o, topics)
	// Metadata requests have a client of their own, which waits at most --timeout for an answer. A
	// member of a group may have to wait longer before it can join.
	adm, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer adm.Close()
	r.admin = adm
	if o.regex {
		if r.topics, err = matching(ctx, adm, topics); err != nil {
			return err
		}
	}
	from, err := r.plan(ctx)
	if err != nil {
		return err
	}
	if err := r.checkProtocol(ctx); err != nil {
		return err
	}
	cl, err := a.Client(ctx, o.client(r)...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	r.client = cl
	if o.group == "" {
		if len(r.left) == 0 && !o.follow {
			return r.lostErrors()
		}
		cl.AddConsumePartitions(from)
	}
	r.bar = output.NewBar(a.Err, !o.follow && cli.IsTerminal(a.Err) && !cli.IsTerminal(a.Out), r.title(), r.total())
	defer r.bar.End()
	return errors.Join(r.run(ctx), r.flush(), r.lostErrors())
}

func newReader(a *app.App, o *consumeOptions, topics []string) *reader {
	return &reader{consumeOptions: o, topics: topics, note: a.Note, out: bufio.NewWriterSize(a.Out, 64<<10), sink: a.Out,
		left: map[partition]span{}, lost: map[partition]error{}, paused: map[partition]time.Time{}, last: map[partition]*kgo.Record{},
		assignedNow: map[partition]bool{}}
}

// matching returns the names of the topics that the expressions match.
func matching(ctx context.Context, adm *kadm.Client, expressions []string) (topics []string, err error) {
	found, missing, err := app.FindTopics(ctx, adm, expressions, true)
	if err != nil {
		return nil, err
	}
	for _, expression := range expressions {
		if err := missing[expression]; err != nil {
			return nil, err
		}
	}
	for _, t := range found {
		topics = append(topics, t.Topic)
	}
	return topics, nil
}

// flush writes the buffered records to standard output.
func (r *reader) flush() error {
	if err := r.out.Flush(); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}
