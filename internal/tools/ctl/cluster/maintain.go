package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/move"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// maintenanceGap is the time between two questions whether all replicas are in sync.
const maintenanceGap = 200 * time.Millisecond

func maintainBroker(a *app.App) *cobra.Command {
	var end bool
	wait := parse.DurationFlag(10 * time.Minute)
	c := &cobra.Command{
		Use: "maintain ID [-- COMMAND [ARGUMENT...]]", Short: "Restart a broker without a partition that waits for it",
		Args: func(cmd *cobra.Command, given []string) error {
			own := given
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				own = given[:n]
				if len(own) == len(given) {
					return app.Usage("%s: the command that restarts the broker follows --", cmd.CommandPath())
				}
				if end {
					return app.Usage("%s: --end takes no command, because the broker runs again", cmd.CommandPath())
				}
			}
			return app.Args(1, 1, "one broker's id")(cmd, own)
		},
		ValidArgsFunction: a.Brokers(1),
		Long: "maintain waits until all replicas of the cluster are in sync, makes other brokers lead what the broker leads, and runs COMMAND.\n" +
			"COMMAND restarts the broker, and ends when that is ready, as systemctl restart does. Then maintain waits until all replicas are in\n" +
			"sync again, and spreads the leaderships over all brokers. It exits with 1 if COMMAND fails, or if replicas are not in sync within\n" +
			"--wait. Maintain the next broker when it has exited with 0.\n" +
			"Without COMMAND it ends when the broker can be stopped, whose leaderships do not return on their own. With --end it does what\n" +
			"follows COMMAND. Nothing is stored: an interrupted command can be repeated.",
		Example: "  chronikctl broker maintain 3 -- ssh broker-3 systemctl restart chronikd",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := brokerID(args[0])
			if err != nil {
				return err
			}
			return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, args []string) error {
				m, err := adm.Metadata(ctx)
				if err != nil {
					return app.Refused("read the metadata", app.BrokerError(err), "")
				}
				if err := registered(ctx, cl, m, id, fmt.Sprintf("maintain broker %d", id)); err != nil {
					return err
				}
				if err := inSync(ctx, a, adm, id, wait.Value()); err != nil {
					return err
				}
				if !end {
					if err := maintain(ctx, a, adm, id, args[1:]); err != nil || len(args) == 1 {
						return err
					}
					if err := inSync(ctx, a, adm, id, wait.Value()); err != nil {
						return err
					}
				}
				return giveBack(ctx, a, adm, id)
			})(cmd, args)
		},
	}
	c.Flags().BoolVar(&end, "end", false, "the broker runs again: wait for its replicas, and give leaderships back")
	c.Flags().Var(&wait, "wait", "how long to wait for replicas that are not in sync")
	return c
}

// maintain makes other brokers lead what a broker leads, and runs the command, if any.
func maintain(ctx context.Context, a *app.App, adm *kadm.Client, id int32, command []string) error {
	leads, err := yield(ctx, a, adm, id)
	if err != nil {
		return err
	}
	if len(command) == 0 {
		var done app.Outcomes
		done.Done(fmt.Sprintf("broker %d", id), "can be stopped: it leads %s; then run chronikctl broker maintain %d --end", leads, id)
		return a.PrintOutcomes(&done)
	}
	a.Note("broker %d leads %s; running %s", id, leads, strings.Join(command, " "))
	if err := runCommand(ctx, a, command); err != nil {
		return fmt.Errorf("maintain broker %d: %s: %w; when the broker runs, chronikctl broker maintain %d --end gives its leaderships back",
			id, command[0], err, id)
	}
	return nil
}

// runCommand runs a program, and returns when it has ended. The program reads what this one reads.
// Its output is not an outcome, so it goes where notes go. A process that it has left in the
// background may hold that open.
func runCommand(ctx context.Context, a *app.App, command []string) error {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Stdin, c.Stdout, c.Stderr, c.WaitDelay = a.In, a.Err, a.Err, time.Second
	if err := c.Run(); !errors.Is(err, exec.ErrWaitDelay) {
		return err
	}
	return nil
}

// yield makes other brokers lead what a broker leads, and returns how much it still leads.
func yield(ctx context.Context, a *app.App, adm *kadm.Client, id int32) (leads string, err error) {
	p, m, err := move.Read(ctx, adm)
	if err != nil {
		return "", err
	}
	alone := p.Yield(id)
	var out app.Outcomes
	if err := p.Run(ctx, a, adm, move.Once(), &out); err != nil {
		return "", err
	}
	if err := out.Err(); err != nil {
		return "", err
	}
	n, err := leadsWhen(ctx, a, adm, id, func(n int) bool { return n <= len(alone) })
	if err != nil {
		return "", err
	}
	if len(alone) > 0 {
		a.Note("no other broker has a replica of %s: %s cannot be written or read while the broker is stopped", strings.Join(alone, ", "),
			text.Plural(len(alone), "partition", "partitions"))
	}
	return fmt.Sprintf("%s of %d", text.Count(n, "partition"), partitionCount(m)), nil
}

// giveBack spreads the leaderships over all brokers.
func giveBack(ctx context.Context, a *app.App, adm *kadm.Client, id int32) error {
	p, m, err := move.Read(ctx, adm)
	if err != nil {
		return err
	}
	p.Lead()
	var out app.Outcomes
	if err := p.Run(ctx, a, adm, move.Once(), &out); err != nil {
		return err
	}
	if err := out.Err(); err != nil {
		return err
	}
	leads, err := leadsWhen(ctx, a, adm, id, func(n int) bool { return n >= p.Prefers(id) })
	if err != nil {
		return err
	}
	var done app.Outcomes
	done.Done(fmt.Sprintf("broker %d", id), "is in sync and leads %s of %d", text.Count(leads, "partition"), partitionCount(m))
	return a.PrintOutcomes(&done)
}

var errBehind = errors.New("not all replicas are in sync")

// inSync waits until a broker is active, and all replicas of the cluster are in sync.
func inSync(ctx context.Context, a *app.App, adm *kadm.Client, id int32, most time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, errBehind)
	defer cancel()
	for said := ""; ; {
		m, err := adm.Metadata(ctx)
		why := ""
		switch {
		case err == nil && !slices.Contains(m.Brokers.NodeIDs(), id):
			why = fmt.Sprintf("broker %d is not active", id)
		case err == nil:
			why = behind(m)
		case ctx.Err() == nil:
			return app.Refused("read the metadata", app.BrokerError(err), "")
		}
		if why == "" && err == nil {
			return nil
		}
		if why != "" && why != said {
			said = why
			a.Note("waiting: %s", why)
		}
		if pause.Sleep(ctx, maintenanceGap) != nil {
			why = cmp.Or(said, fmt.Sprintf("no broker answered within %s", most))
			return app.WithCode(app.ExitFailed, fmt.Errorf("maintain broker %d: %s; chronikctl cluster health names the reason", id, why))
		}
	}
}

// behind returns which replicas are not in sync, "" if all are.
func behind(m kadm.Metadata) string {
	var names []string
	for _, t := range m.Topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			if len(p.ISR) < len(p.Replicas) || p.Leader < 0 {
				names = append(names, fmt.Sprintf("%s-%d", t.Topic, p.Partition))
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	more := ""
	if len(names) > 3 {
		more, names = " and others", names[:3]
	}
	return "replicas of " + strings.Join(names, ", ") + more + " are not in sync"
}

// leadsWhen waits until a broker leads a number of partitions that is right, and returns it.
func leadsWhen(ctx context.Context, a *app.App, adm *kadm.Client, id int32, right func(int) bool) (leads int, err error) {
	moves := errors.New("leaderships move still")
	err = a.While(ctx, func(err error) bool { return errors.Is(err, moves) }, func() error {
		m, err := adm.Metadata(ctx)
		if err != nil {
			return app.Refused("read the metadata", app.BrokerError(err), "")
		}
		if leads = leadsOf(m, id); !right(leads) {
			return moves
		}
		return nil
	})
	if errors.Is(err, moves) {
		err = fmt.Errorf("broker %d leads %s, because other replicas could not lead; run the command again", id,
			text.Count(leads, "partition"))
	}
	return leads, err
}

func leadsOf(m kadm.Metadata, id int32) (n int) {
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			if p.Leader == id {
				n++
			}
		}
	}
	return n
}

func partitionCount(m kadm.Metadata) (n int) {
	for _, t := range m.Topics {
		n += len(t.Partitions)
	}
	return n
}
