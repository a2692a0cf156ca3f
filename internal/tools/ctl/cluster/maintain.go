package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/move"
	"github.com/chronik-io/chronik/internal/view"
)

// maintenanceGap is the time between two questions whether all replicas are in sync.
const maintenanceGap = 200 * time.Millisecond

func maintainBroker(a *app.App) *cobra.Command {
	var end bool
	var wait time.Duration
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
			"sync again and cluster health says no more of the broker than before, and spreads the leaderships over all brokers. It exits\n" +
			"with 1 if COMMAND fails, or if replicas are not in sync within --wait. Maintain the next broker when it has exited with 0.\n" +
			"Its user needs describe and alter on the cluster, and describe and describe-configs on all topics.\n" +
			"Without COMMAND it ends when the broker can be stopped, whose leaderships do not return on their own. With --end it does what\n" +
			"follows COMMAND: since nothing is known from before, it waits until cluster health says nothing bad of the broker.\n" +
			"Nothing is stored: an interrupted command can be repeated.",
		Example: "  chronikctl broker maintain 3 -- ssh broker-3 systemctl restart chronikd",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := brokerID(args[0])
			if err != nil {
				return err
			}
			return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, args []string) error {
				err := (&maintenance{a: a, adm: adm, cl: cl, id: id, wait: wait}).do(ctx, end, args[1:])
				if err == nil || a.Format().ForPeople() {
					return err
				}
				var out app.Outcomes
				out.Failed(fmt.Sprintf("broker %d", id), err)
				return a.PrintOutcomes(&out)
			})(cmd, args)
		},
	}
	c.Flags().BoolVar(&end, "end", false, "the broker runs again: wait for its replicas, and give leaderships back")
	cli.AtLeast(time.Duration(0)).Flag(c.Flags(), &wait, "wait", "", 10*time.Minute, "how long to wait for replicas that are not in sync")
	return c
}

// maintenance is one run of broker maintain.
type maintenance struct {
	a    *app.App
	adm  *kadm.Client
	cl   *kgo.Client
	id   int32
	wait time.Duration // for replicas that are not in sync, each time
	was  verdicts      // before the command; of --end, which brokers answer
	end  bool          // nothing is known from before: only serious findings count
}

func (x *maintenance) do(ctx context.Context, end bool, command []string) error {
	m, err := x.adm.Metadata(ctx)
	if err != nil {
		return app.Refused("read the metadata", app.BrokerError(err), "")
	}
	if err := registered(ctx, x.cl, m, x.id, fmt.Sprintf("maintain broker %d", x.id)); err != nil {
		return err
	}
	if end {
		if x.was, err = x.verdicts(ctx); err != nil {
			return err
		}
		for broker := range x.was {
			x.was[broker] = nil
		}
		x.end = true
		if err := x.inSync(ctx, -1); err != nil {
			return err
		}
		return x.giveBack(ctx)
	}
	if len(command) > 0 {
		return x.restart(ctx, command)
	}
	leads, err := x.ready(ctx, func() error { return nil })
	if err != nil {
		return err
	}
	var done app.Outcomes
	done.Done(fmt.Sprintf("broker %d", x.id), "can be stopped: it leads %s; then run chronikctl broker maintain %d --end", leads, x.id)
	return x.a.PrintOutcomes(&done)
}

// ready waits until the broker can be stopped, and returns how much it still leads: all replicas
// are in sync, and other brokers lead. That takes its time, as does prepare. So it asks again at
// the end: a broker may have died meanwhile, or be maintained by another operator.
func (x *maintenance) ready(ctx context.Context, prepare func() error) (leads string, err error) {
	for {
		if err := x.inSync(ctx, -1); err != nil {
			return "", err
		}
		if leads, err = x.yield(ctx); err != nil {
			return "", err
		}
		if err := prepare(); err != nil {
			return "", err
		}
		why, err := x.pending(ctx, -1)
		if err != nil || why == "" {
			return leads, err
		}
		x.a.Note("broker %d is not stopped yet: %s", x.id, why)
	}
}

// restart runs the command that restarts the broker when it is ready, waits until it has, and gives
// the leaderships back.
func (x *maintenance) restart(ctx context.Context, command []string) error {
	var before view.Start
	var was verdicts
	leads, err := x.ready(ctx, func() (err error) {
		if before, err = x.started(ctx); err == nil && before.Epoch < 0 {
			err = fmt.Errorf("maintain broker %d: it is no longer listed; chronikctl cluster health names the reason", x.id)
		}
		if err == nil {
			was, err = x.verdicts(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	x.was = was
	x.a.Note("broker %d leads %s; running %s", x.id, leads, strings.Join(command, " "))
	if err = runCommand(ctx, x.a, command); err != nil {
		err = fmt.Errorf("maintain broker %d: %s: %w", x.id, command[0], err)
	} else {
		err = x.inSync(ctx, before.Epoch)
	}
	if err != nil {
		return fmt.Errorf("%w; when the broker runs, chronikctl broker maintain %d --end gives its leaderships back", err, x.id)
	}
	return x.giveBack(ctx)
}

var errInterrupted = errors.New("interrupted")

// runCommand runs a program, and returns when it has ended. The program reads what this one reads.
// Its output is not an outcome, so it goes where notes go. A process that it has left in the
// background may hold that open. When ctx ends, the program is interrupted: it may have stopped the
// broker, and is to decide itself how far it gets. A terminal has interrupted it already.
func runCommand(ctx context.Context, a *app.App, command []string) error {
	c := exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
	c.Stdin, c.Stdout, c.Stderr, c.WaitDelay = a.In, a.Err, a.Err, time.Second
	if err := c.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		a.Note("interrupted: waiting for %s to end", command[0])
		if !cli.IsTerminal(a.In) {
			_ = c.Process.Signal(os.Interrupt) // it fails if the program has ended
		}
	})()
	err := c.Wait()
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case errors.Is(err, exec.ErrWaitDelay):
		return nil
	}
	return err
}

// started returns what a broker knows of the start of the one that is maintained, with the epoch -1
// if it does not list it.
func (x *maintenance) started(ctx context.Context) (view.Start, error) { return x.startedBy(ctx, x.cl) }

// startedBy is started of one broker.
func (x *maintenance) startedBy(ctx context.Context, broker kmsg.Requestor) (view.Start, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	req.UnknownTags.Set(view.StartTag, []byte{})
	resp, err := req.RequestWith(ctx, broker)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return view.Start{}, app.Refused("describe the cluster", app.BrokerError(err), "")
	}
	start, told := view.Start{Epoch: -1}, false
	for _, b := range resp.Brokers {
		b.UnknownTags.Each(func(tag uint32, p []byte) {
			if s, ok := view.ParseStart(p); ok && tag == view.StartTag {
				told, start.Partitions = true, s.Partitions
				if b.NodeID == x.id {
					start.Epoch = s.Epoch
				}
			}
		})
	}
	if !told {
		return start, fmt.Errorf("maintain broker %d: the broker that answers does not say when it was started; "+
			"if its version is older than chronikctl's, run the chronikctl of that version; otherwise the user needs describe on cluster", x.id)
	}
	return start, nil
}

// yield makes other brokers lead what the broker leads, and returns how much it still leads.
func (x *maintenance) yield(ctx context.Context) (leads string, err error) {
	var alone []string
	var total int
	var unable []int32
	for range 2 { // in the second round, those that could not lead in the first are not asked again
		p, m, err := move.Read(ctx, x.adm)
		if err != nil {
			return "", err
		}
		alone, total = p.Yield(x.id, unable...), partitionCount(m)
		var out app.Outcomes
		if err := p.Run(ctx, x.a, x.adm, x.cl, move.Once(), &out); err != nil {
			return "", err
		}
		if err := out.Err(); err != nil {
			return "", err
		}
		if unable = p.Unable(); len(unable) == 0 {
			break
		}
	}
	n, err := x.leadsWhen(ctx, func(leads []string) bool {
		return !slices.ContainsFunc(leads, func(p string) bool { return !slices.Contains(alone, p) })
	})
	if err != nil {
		return "", err
	}
	if len(alone) > 0 {
		x.a.Note("no other broker can lead %s: %s cannot be written or read while the broker is stopped", strings.Join(alone, ", "),
			text.Plural(len(alone), "partition", "partitions"))
	}
	return fmt.Sprintf("%s of %d", text.Count(n, "partition"), total), nil
}

// giveBack spreads the leaderships over all brokers.
func (x *maintenance) giveBack(ctx context.Context) error {
	p, m, err := move.Read(ctx, x.adm)
	if err != nil {
		return err
	}
	why := behind(m)
	if !p.Takes(x.id) {
		why = fmt.Sprintf("broker %d is not active", x.id)
	}
	if why != "" {
		return fmt.Errorf("%s; when that has changed, chronikctl broker maintain %d --end gives its leaderships back", why, x.id)
	}
	p.Lead()
	var out app.Outcomes
	if err := p.Run(ctx, x.a, x.adm, x.cl, move.Once(), &out); err != nil {
		return err
	}
	if err := out.Err(); err != nil {
		return err
	}
	leads, err := x.leadsWhen(ctx, func(leads []string) bool { return len(leads) >= p.Prefers(x.id) })
	if err != nil {
		return err
	}
	var done app.Outcomes
	done.Done(fmt.Sprintf("broker %d", x.id), "is in sync and leads %s of %d", text.Count(leads, "partition"), partitionCount(m))
	return x.a.PrintOutcomes(&done)
}

var errBehind = errors.New("not all replicas are in sync")

// inSync waits until the broker is active, in a later epoch than before unless that is negative,
// all replicas of the cluster are in sync, and all of them can be seen.
func (x *maintenance) inSync(ctx context.Context, before int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, x.wait, errBehind)
	defer cancel()
	for said := ""; ; {
		why, err := x.pending(ctx, before)
		if err != nil && before < 0 && ctx.Err() == nil {
			return err
		}
		if why == "" && err == nil {
			return nil
		}
		if err != nil { // brokers may be away while one restarts
			why = err.Error()
		}
		if why != said && ctx.Err() == nil {
			said = why
			x.a.Note("waiting: %s", why)
		}
		if pause.Sleep(ctx, maintenanceGap) != nil {
			why = cmp.Or(said, fmt.Sprintf("no broker answered within %s", x.wait))
			if !errors.Is(context.Cause(ctx), errBehind) {
				why = "interrupted, while it waited: " + why
			}
			return app.WithCode(app.ExitFailed, fmt.Errorf("maintain broker %d: %s; chronikctl cluster health names the reason", x.id, why))
		}
	}
}

// pending returns what inSync waits for. It asks for the epoch first: the metadata may be of the
// former process otherwise.
func (x *maintenance) pending(ctx context.Context, before int64) (why string, err error) {
	start, err := x.started(ctx)
	if err != nil {
		return "", err
	}
	m, err := x.adm.Metadata(ctx)
	if err != nil {
		return "", app.Refused("read the metadata", app.BrokerError(err), "")
	}
	seen := partitionCount(m)
	switch {
	case start.Epoch < 0: // fenced brokers are listed, too
		return fmt.Sprintf("broker %d has no listener of the name of the one that was dialed", x.id), nil
	case !slices.Contains(m.Brokers.NodeIDs(), x.id):
		return fmt.Sprintf("broker %d is not active", x.id), nil
	case start.Epoch <= before:
		return fmt.Sprintf("broker %d has not restarted", x.id), nil
	case seen < int(start.Partitions):
		return fmt.Sprintf("%d of %d partitions can be seen; the user of chronikctl needs describe on all topics", seen, start.Partitions), nil
	}
	if why := behind(m); why != "" || x.was == nil {
		return why, nil
	}
	return x.worse(ctx, m, before)
}

// worse returns what brokers report of the one that is maintained and did not report before the
// command. The metadata of one broker do not suffice: others may not know yet that it has started,
// and it may not hear the others yet.
func (x *maintenance) worse(ctx context.Context, m kadm.Metadata, before int64) (why string, err error) {
	for _, id := range m.Brokers.NodeIDs() {
		if _, answered := x.was[id]; !answered && id != x.id {
			continue
		}
		start, err := x.startedBy(ctx, x.cl.Broker(int(id)))
		switch {
		case err != nil:
			return err.Error(), nil
		case start.Epoch <= before:
			return fmt.Sprintf("broker %d does not know yet that broker %d has restarted", id, x.id), nil
		}
	}
	now, err := x.verdicts(ctx)
	if err != nil {
		return "", err
	}
	if x.end {
		now = now.serious()
	}
	return now.worse(x.was), nil
}

// verdicts are what brokers report of the one that is maintained, by broker. Those that did not
// answer are absent.
type verdicts map[int32][]health.Finding

// oneReport bounds the wait for the report of a broker. One that hangs has no part in it.
const oneReport = 3 * time.Second

// verdicts asks the brokers that the metadata name.
func (x *maintenance) verdicts(ctx context.Context) (verdicts, error) {
	m, err := x.adm.Metadata(ctx)
	if err != nil {
		return nil, app.Refused("read the metadata", app.BrokerError(err), "")
	}
	all := verdicts{}
	for _, id := range m.Brokers.NodeIDs() {
		one, cancel := context.WithTimeout(ctx, oneReport)
		r, err := app.Report(one, x.cl.Broker(int(id)))
		cancel()
		if err == nil {
			all[id] = reported(r, x.id)
		} else if ctx.Err() != nil {
			return nil, err
		}
	}
	return all, nil
}

// reported returns what a report has of a broker: its own findings, and those of others about it,
// without notes.
func reported(r *health.Report, id int32) (list []health.Finding) {
	name := health.BrokerSubject(id)
	for _, f := range r.Findings {
		if f.Severity != health.Note && (f.Broker == id || strings.HasSuffix(f.Subject, name)) {
			list = append(list, f)
		}
	}
	for _, o := range r.Brokers { // a report without a version never came, as from an older broker
		if o.Broker == id && o.Version != "" && (!o.Current || o.Phase != "") {
			list = append(list, health.Finding{Broker: r.Broker, Check: health.CheckReports, Severity: health.Warn,
				Subject: "report of " + name, Problem: fmt.Sprintf("broker %d has no report yet that it serves clients", r.Broker)})
		}
	}
	return list
}

// serious returns the findings that are bad, or say that the broker has not started or serves no
// clients. Its warnings may be older than the restart, although others hear them only after it.
func (v verdicts) serious() verdicts {
	state := []string{health.CheckBrokers, health.CheckReports, health.CheckServing, health.CheckMembership}
	all := verdicts{}
	for broker, list := range v {
		all[broker] = slices.DeleteFunc(list, func(f health.Finding) bool {
			return f.Severity != health.Bad && !f.NotReady && !slices.Contains(state, f.Check)
		})
	}
	return all
}

// worse returns a finding that the reports have and those of before lack, or have as less severe,
// "" if there is none. A broker that answered before must answer. What clients cause does not
// count: a stranger without a login could keep a broker from being maintained.
func (v verdicts) worse(before verdicts) string {
	for _, broker := range slices.Sorted(maps.Keys(before)) {
		if _, answers := v[broker]; !answers {
			return fmt.Sprintf("broker %d does not report its health", broker)
		}
	}
	rank := func(f *health.Finding) int { return slices.Index(health.Severities(), f.Severity) }
	for _, broker := range slices.Sorted(maps.Keys(v)) {
		for i := range v[broker] {
			f := &v[broker][i]
			if f.Check != health.CheckRefused && !slices.ContainsFunc(before[broker], func(o health.Finding) bool {
				return o.Check == f.Check && o.Subject == f.Subject && rank(&o) <= rank(f)
			}) {
				return fmt.Sprintf("%s: %s", f.Where(), f.Problem)
			}
		}
	}
	return ""
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

// leadsWhen waits until the broker leads the right partitions, and returns how many.
func (x *maintenance) leadsWhen(ctx context.Context, right func(leads []string) bool) (n int, err error) {
	moves := errors.New("leaderships move still")
	var leads, instead []string
	err = x.a.While(ctx, func(err error) bool { return errors.Is(err, moves) }, func() error {
		m, err := x.adm.Metadata(ctx)
		if err != nil {
			return app.Refused("read the metadata", app.BrokerError(err), "")
		}
		leads, instead = nil, nil
		for _, t := range m.Topics.Sorted() {
			for _, p := range t.Partitions.Sorted() {
				if p.Leader == x.id {
					leads = append(leads, fmt.Sprintf("%s-%d", t.Topic, p.Partition))
				}
				if len(p.Replicas) > 0 && p.Leader != p.Replicas[0] {
					instead = append(instead, fmt.Sprintf("%s-%d, which broker %d should lead", t.Topic, p.Partition, p.Replicas[0]))
				}
			}
		}
		if !right(leads) {
			return moves
		}
		return nil
	})
	if errors.Is(err, moves) {
		more := ""
		if len(instead) > 3 {
			more, instead = fmt.Sprintf(", and %d more", len(instead)-3), instead[:3]
		}
		err = fmt.Errorf("broker %d leads %s; other leaders than the preferred ones have %s%s; chronikctl cluster health names the reason",
			x.id, text.Count(len(leads), "partition"), strings.Join(instead, "; "), more)
	}
	return len(leads), err
}

func partitionCount(m kadm.Metadata) (n int) {
	for _, t := range m.Topics {
		n += len(t.Partitions)
	}
	return n
}
