package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// target is a transaction in one partition.
type target struct {
	topic     string
	partition int32
	first     int64
}

func abort(a *app.App) *cobra.Command {
	var t target
	var dryRun bool
	c := &cobra.Command{
		Use: "abort [ID...]", Short: "Abort transactions, or one that hangs in a partition",
		Args:              app.Args(0, -1, "transactional ids, or none"),
		ValidArgsFunction: transactionalIDs(a, 0),
		Long: "abort ID ends the open transaction of a transactional id: its records stay invisible for readers of committed records. It\n" +
			"fences the producer that has the id, so an application that still runs must be restarted. A transaction whose outcome is\n" +
			"decided (PrepareCommit, PrepareAbort) is refused: its coordinator ends it.\n\n" +
			"With --topic, --partition and --start-offset, abort ends a transaction that txn find-hanging found, in that partition only.\n" +
			"It is refused if a coordinator has the transaction, because an abort in one partition would tear it.\n\n" +
			"abort lists what it would do and asks; --yes confirms, --dry-run only lists.",
		Example: "  chronikctl txn abort billing-1 --dry-run\n  chronikctl txn abort billing-1 --yes\n" +
			"  chronikctl txn abort --topic orders --partition 0 --start-offset 1200",
		RunE: func(cmd *cobra.Command, ids []string) error {
			if err := t.check(ids); err != nil {
				return err
			}
			return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, ids []string) error {
				var out app.Outcomes
				var err error
				if t.topic != "" {
					err = t.run(ctx, a, adm, cl, &out, dryRun)
				} else {
					err = fence(ctx, a, adm, cl, ids, &out, dryRun)
				}
				return errors.Join(err, a.PrintOutcomes(&out))
			})(cmd, ids)
		},
	}
	c.Flags().StringVar(&t.topic, "topic", "", "topic of a hanging transaction")
	cli.AtLeast(int32(0)).Flag(c.Flags(), &t.partition, "partition", "p", -1, "its partition")
	cli.AtLeast(int64(0)).Flag(c.Flags(), &t.first, "start-offset", "", -1, "its first offset there")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only list what would be done")
	app.CompleteFlag(c, "topic", a.Topics(0))
	return c
}

// check validates the command line. It sends nothing.
func (t *target) check(ids []string) error {
	some := t.topic != "" || t.partition >= 0 || t.first >= 0
	switch {
	case some && len(ids) > 0:
		return app.Usage("%q and --topic exclude each other: give transactional ids, or --topic, --partition and --start-offset", ids[0])
	case some && (t.topic == "" || t.partition < 0 || t.first < 0):
		return app.Usage("--topic, --partition and --start-offset belong together; chronikctl txn find-hanging prints them")
	case !some && len(ids) == 0:
		return app.Usage("give transactional ids, or --topic, --partition and --start-offset of a transaction that chronikctl txn find-hanging found")
	}
	return nil
}

// fence aborts the transactions of transactional ids, as a new producer with the same id does.
func fence(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, ids []string, out *app.Outcomes, dryRun bool) error {
	found, failed := load(ctx, a, adm, ids)
	var left []*transaction
	var losses []string
	for _, id := range ids {
		t := found[id]
		switch {
		case t == nil:
			out.Failed(id, fmt.Errorf("abort %w", failed[id]))
		case decided(t.State):
			out.Failed(id, fmt.Errorf("abort transactional id %s: its outcome is decided (%s) and cannot be changed; its coordinator writes the "+
				"markers, %s shows which are missing", id, t.State, health.Command("chronikctl", "txn", "describe", id)))
		case dryRun:
			out.Done(id, "would be %s", t.fate())
		default:
			left = append(left, t)
			losses = append(losses, id+": "+t.fate())
		}
	}
	if len(left) == 0 {
		return nil
	}
	if err := a.Confirm("abort "+text.Count(len(left), "transaction"), app.Irreversible, losses); err != nil {
		return err
	}
	for _, t := range left {
		pid, epoch, err := initialize(ctx, a, cl, t)
		if err != nil {
			out.Failed(t.ID, refused("abort transactional id "+t.ID, err))
			continue
		}
		out.Done(t.ID, "was %s; the next producer has the producer id %d and an epoch above %d", t.fate(), pid, epoch)
	}
	return nil
}

// fate describes what an abort does to a transactional id.
func (t *transaction) fate() string {
	if t.State != ongoing {
		return fmt.Sprintf("fenced: no transaction is open (%s), the producer %d with epoch %d loses its id", t.State, t.ProducerID, t.Epoch)
	}
	in := inWords(t.in)
	if in == "" {
		in = "no partition"
	}
	return fmt.Sprintf("aborted: the transaction of producer %d with epoch %d in %s, open for %s", t.ProducerID, t.Epoch, in, t.age())
}

// initialize sends InitProducerId until the transaction before has ended, up to --timeout.
func initialize(ctx context.Context, a *app.App, cl *kgo.Client, t *transaction) (pid int64, epoch int16, err error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	// The next producer brings its own timeout. This one's may be above a maximum that was lowered.
	req.TransactionalID, req.TransactionTimeoutMillis = &t.ID, 1
	again := func(err error) bool { return app.NotReady(err) || errors.Is(err, kerr.ConcurrentTransactions) }
	err = a.While(ctx, again, func() error {
		resp, err := req.RequestWith(ctx, cl)
		if err == nil {
			pid, epoch, err = resp.ProducerID, resp.ProducerEpoch, kerr.ErrorForCode(resp.ErrorCode)
		}
		return err
	})
	return pid, epoch, err
}

// run aborts a transaction in one partition.
func (t *target) run(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, out *app.Outcomes, dryRun bool) error {
	w := where{t.topic, t.partition}
	name := app.PartitionName(t.topic, t.partition)
	what := fmt.Sprintf("abort the transaction at offset %d of %s", t.first, name)
	p, err := t.hangs(ctx, a, adm, cl, w)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	done := fmt.Sprintf("aborted: the transaction of producer %d with epoch %d that began at offset %d",
		p.ProducerID, p.ProducerEpoch, t.first)
	if dryRun {
		out.Done(name, "would be %s", done)
		return nil
	}
	if err := a.Confirm("abort a transaction", app.Irreversible, []string{name + ": " + done}); err != nil {
		return err
	}
	// The answer may have taken a while: a coordinator that came back may have the transaction now.
	if p, err = t.hangs(ctx, a, adm, cl, w); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := mark(ctx, adm, w, p); err != nil {
		return app.Refused(what, err, "")
	}
	out.Done(name, "was %s", done)
	return nil
}

// hangs returns the producer of the transaction, or why it must not be aborted.
func (t *target) hangs(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, w where) (kadm.DescribedProducer, error) {
	p, err := t.find(ctx, adm, w)
	if err != nil {
		return p, err
	}
	by, err := owners(ctx, a, adm, cl, []int64{p.ProducerID})
	if err != nil {
		return p, err
	}
	if owner := by[p.ProducerID]; unowned(owner, w) == "" {
		return p, fmt.Errorf("transactional id %s has it (%s): %s", owner.ID, owner.State, owner.end())
	}
	return p, nil
}

// end describes how a transaction that its coordinator has ends.
func (t *transaction) end() string {
	if decided(t.State) {
		return "its coordinator writes the marker; " + health.Command("chronikctl", "txn", "describe", t.ID) + " shows which are missing"
	}
	return health.Command("chronikctl", "txn", "abort", t.ID) + " aborts it in all its partitions"
}

// find returns the producer whose open transaction begins at the offset.
func (t *target) find(ctx context.Context, adm *kadm.Client, w where) (kadm.DescribedProducer, error) {
	set := kadm.TopicsSet{}
	set.Add(w.topic, w.index)
	v := examine(ctx, adm, set)[w]
	if v.err != nil {
		return kadm.DescribedProducer{}, v.err
	}
	p, ok := v.at(t.first)
	if ok {
		return p, nil
	}
	var open []string
	for _, p := range v.open {
		open = append(open, fmt.Sprint(p.CurrentTxnStartOffset))
	}
	if len(open) == 0 {
		return p, errors.New("no transaction is open there; it may have ended meanwhile")
	}
	return p, fmt.Errorf("no open transaction begins there; those that are open begin at %s", strings.Join(open, ", "))
}

// mark writes the abort marker. The coordinator epoch is that of the producer's last marker, since
// the real coordinator's must not appear outdated afterwards.
func mark(ctx context.Context, adm *kadm.Client, w where, p kadm.DescribedProducer) error {
	m := kadm.TxnMarkers{ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch, CoordinatorEpoch: max(0, p.CoordinatorEpoch)}
	m.Topics.Add(w.topic, w.index)
	answers, err := adm.WriteTxnMarkers(ctx, m)
	if err != nil {
		return app.BrokerError(err)
	}
	r, ok := answers[p.ProducerID].Topics[w.topic].Partitions[w.index]
	if !ok {
		return kerr.UnknownServerError
	}
	return r.Err
}
