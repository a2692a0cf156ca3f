// Package records implements chronikctl produce and chronikctl consume.
//
// produce exits with 0 only if the broker acknowledged every record. It keeps the order within a
// partition and names the input line in an error.
//
// consume without --follow prints the records up to the log end offset at its start and exits.
// It keeps the order within a partition. It skips a partition that cannot be read, reads the
// others and reports the error at the end. It commits a group's offset only for printed records.
package records

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/ctl/output"
)

// NewConsume is the command.
func NewConsume(a *app.App) *cobra.Command {
	var o consumeOptions
	c := &cobra.Command{
		Use: "consume TOPIC", Short: "Print records",
		Long: "consume prints what a topic held when it was asked, and ends. With --follow it goes on until it is interrupted.\n" +
			"Records of one partition come in order. With --group it reads as a member of that group, from where\n" +
			"the group is, and commits what it has printed. A partition that cannot be read is named at the end, with exit code 1; the\n" +
			"others are read all the same.\n\n" + formatHelp,
		Example: "  chronikctl consume orders --from 1h --follow\n  chronikctl consume orders --partition 0 --from 1200 --until 1300 -o json\n" +
			"  chronikctl consume orders --from -10 --format '%p:%o %k=%v\\n'\n  chronikctl consume orders --group audit --count 100\n" +
			"  chronikctl consume orders --group audit --group-protocol consumer --follow",
		Args: app.Args(1, 1, "one topic"), ValidArgsFunction: a.Topics(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			if cmd.Flags().Changed("group") && o.group == "" {
				return app.Usage("--group is empty; is a variable not set?")
			}
			if err := o.check(a.Format()); err != nil {
				return err
			}
			return runConsume(cmd.Context(), a, &o, names[0])
		},
	}
	o.flags(c, a)
	return c
}

func runConsume(ctx context.Context, a *app.App, o *consumeOptions, topic string) error {
	r := newReader(a, o, topic)
	// Questions have a client of their own, which waits no longer than --timeout for an
	// answer; a member of a group may have to wait longer until it can join.
	adm, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer adm.Close()
	r.admin = adm
	from, err := r.plan(ctx)
	if err != nil {
		return err
	}
	if err := r.offered(ctx); err != nil {
		return err
	}
	cl, err := a.Client(ctx, o.client(topic, r)...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	r.client = cl
	if o.group == "" {
		if len(r.left) == 0 && !o.follow {
			return r.unread()
		}
		cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	}
	r.bar = output.NewBar(a.Err, !o.follow && cli.IsTerminal(a.Err) && !cli.IsTerminal(a.Out), topic, r.total())
	defer r.bar.End()
	return errors.Join(r.run(ctx), r.flush(), r.unread())
}

func newReader(a *app.App, o *consumeOptions, topic string) *reader {
	return &reader{consumeOptions: o, topic: topic, note: a.Note, out: bufio.NewWriterSize(a.Out, 64<<10), sink: a.Out,
		left: map[int32]span{}, lost: map[int32]error{}, paused: map[int32]time.Time{}, last: map[int32]*kgo.Record{}, own: map[int32]bool{}}
}

// flush hands out what was printed.
func (r *reader) flush() error {
	if err := r.out.Flush(); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}
