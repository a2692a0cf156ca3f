package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
	"github.com/chronik-io/chronik/internal/view"
)

func elect(a *app.App) *cobra.Command {
	var unclean, confirm, dryRun bool
	c := &cobra.Command{
		Use: "elect [TOPIC[:PARTITIONS]...]", Short: "Elect the preferred leaders of partitions, or leaders for those that have none",
		Args: app.Args(0, -1, "topics"), ValidArgsFunction: a.Topics(0),
		Long: "elect makes the first replica of each partition its leader, if it is in sync. The controller does the same every 5 minutes.\n" +
			"Without an argument it does so for all partitions.\n\n" +
			"With --unclean it elects leaders for partitions that have none, although records may be lost. Of the replicas on active\n" +
			"brokers, the one with the most records leads, and the others discard what it does not have. First start the brokers that\n" +
			"have all records, if they still exist: then nothing is lost. elect lists what may be lost and asks; --yes confirms.\n\n" +
			"Such a loss is a finding of `chronikctl cluster health`, also after restarts, until --confirm-loss says that you know of it.\n" +
			"That elects nothing, and needs the right to alter the cluster.",
		Example: "  chronikctl topic elect\n  chronikctl topic elect orders:0,2\n  chronikctl topic elect orders --unclean --dry-run\n" +
			"  chronikctl topic elect orders --confirm-loss",
		RunE: a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, args []string) error {
			how := election{a: a, adm: adm, cl: cl, unclean: unclean, dryRun: dryRun}
			if confirm {
				return how.confirm(ctx, args)
			}
			return how.run(ctx, args)
		}),
	}
	c.Flags().BoolVar(&unclean, "unclean", false, "elect leaders for partitions that have none, although acknowledged records may be lost")
	c.Flags().BoolVar(&confirm, "confirm-loss", false, "elect nothing: confirm that you know of the records that earlier elections may have lost")
	c.Flags().BoolVar(&dryRun, "dry-run", false, dryRunDoc)
	c.MarkFlagsMutuallyExclusive("confirm-loss", "unclean")
	c.MarkFlagsMutuallyExclusive("confirm-loss", "dry-run")
	return c
}

// election is one run of elect.
type election struct {
	a               *app.App
	adm             *kadm.Client
	cl              *kgo.Client
	unclean, dryRun bool
	out             app.Outcomes
}

func (e *election) run(ctx context.Context, args []string) error {
	chosen, err := e.choose(ctx, args)
	if err != nil {
		return err
	}
	var open []kadm.PartitionDetail // those that need an election
	for _, p := range chosen {
		switch {
		case e.unclean && p.Leader >= 0, !e.unclean && p.Leader == p.Replicas[0]:
			switch {
			case slices.Contains(p.OfflineReplicas, p.Leader): // there is no other
				e.out.Done(partitionName(p), "is led by broker %d, where its log is offline: `chronikctl cluster health` says why", p.Leader)
			case len(args) > 0:
				e.out.Done(partitionName(p), "is led by broker %d", p.Leader)
			}
		default:
			open = append(open, p)
		}
	}
	switch {
	case len(open) == 0 && len(args) == 0 && e.unclean:
		e.a.Note("every partition has a leader: nothing is elected")
	case len(open) == 0 && len(args) == 0:
		e.a.Note("every partition is led by its first replica: nothing is elected")
	case len(open) == 0:
	case e.unclean:
		err = e.lose(ctx, open)
	default:
		err = e.prefer(ctx, open)
	}
	if err != nil {
		return err
	}
	return e.a.PrintOutcomes(&e.out)
}

// confirm confirms the losses of partitions.
func (e *election) confirm(ctx context.Context, args []string) error {
	chosen, err := e.choose(ctx, args)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		if err := e.a.Confirm("confirm the losses of all partitions", "A confirmed loss is no finding any more.", nil); err != nil {
			return err
		}
	}
	set := kadm.TopicsSet{}
	for _, p := range chosen {
		set.Add(p.Topic, p.Partition)
	}
	var answers kadm.ElectLeadersResults
	if len(set) > 0 {
		if answers, err = e.adm.ElectLeaders(ctx, kadm.ElectLeadersHow(view.ConfirmLoss), set); err != nil {
			return app.Refused("confirm losses", app.Needs(app.BrokerError(err), app.OnCluster("alter")), "")
		}
	}
	confirmed := false
	for _, p := range chosen {
		name := partitionName(p)
		switch r, ok := answers[p.Topic][p.Partition]; {
		case !ok:
			e.out.Failed(name, fmt.Errorf("confirm the loss of %s: the broker did not answer for it; try again", name))
		case errors.Is(r.Err, kerr.ElectionNotNeeded):
			if len(args) > 0 {
				e.out.Done(name, "has no loss to confirm")
			}
		case r.Err != nil:
			e.out.Refused(name, "confirm the loss of "+name, r.Err, r.ErrMessage)
		default:
			confirmed = true
			e.out.Done(name, "is no finding any longer")
		}
	}
	if len(args) == 0 && !confirmed && e.out.Empty() {
		e.a.Note("no partition has a loss to confirm")
	}
	return e.a.PrintOutcomes(&e.out)
}

// choose returns the partitions that the arguments name, and all without arguments. It adds an
// outcome for each that does not exist.
func (e *election) choose(ctx context.Context, args []string) (chosen []kadm.PartitionDetail, err error) {
	some := map[string][]int32{}
	var names []string
	for _, arg := range args {
		topic, partitions, err := parse.TopicPartitions(arg)
		if err != nil {
			return nil, app.Usage("%w", err)
		}
		if _, twice := some[topic]; twice {
			return nil, app.Usage("%s is named twice; write its partitions as %s:0,2,5-7", topic, topic)
		}
		some[topic], names = partitions, append(names, topic)
	}
	if len(args) == 0 {
		all, err := e.adm.ListTopicsWithInternal(ctx)
		if err != nil {
			return nil, app.Refused("elect leaders", app.Needs(app.BrokerError(err), app.OnCluster("alter")), "")
		}
		for _, t := range all.Sorted() {
			chosen = append(chosen, t.Partitions.Sorted()...)
		}
		return chosen, nil
	}
	topics, missing, err := app.FindTopics(ctx, e.adm, names, false)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err, ok := missing[name]; ok {
			e.out.Refused(name, "elect leaders of "+name, err, "")
		}
	}
	for _, t := range topics {
		wanted := some[t.Topic]
		if wanted == nil {
			wanted = t.Partitions.Numbers()
		}
		for _, n := range wanted {
			p, ok := t.Partitions[n]
			if !ok {
				e.out.Failed(t.Topic, fmt.Errorf("%s has no partition %d, but %s", t.Topic, n, text.Count(len(t.Partitions), "partition")))
				continue
			}
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}

// prefer elects the first replicas.
func (e *election) prefer(ctx context.Context, open []kadm.PartitionDetail) error {
	if e.dryRun {
		for _, p := range open {
			if slices.Contains(p.ISR, p.Replicas[0]) && p.Leader >= 0 {
				e.out.Done(partitionName(p), "would be led by broker %d, not by broker %d", p.Replicas[0], p.Leader)
				continue
			}
			e.out.Done(partitionName(p), "would stay with broker %d: its first replica, on broker %d, is not in sync", p.Leader,
				p.Replicas[0])
		}
		return nil
	}
	return e.request(ctx, kadm.ElectPreferredReplica, open)
}

// lose elects leaders that may lack records, after a question.
func (e *election) lose(ctx context.Context, open []kadm.PartitionDetail) error {
	topics, err := e.adm.ListTopicsWithInternal(ctx, topicsOf(open)...)
	if err != nil {
		return app.Refused("elect leaders", app.Needs(app.BrokerError(err), app.OnCluster("alter")), "")
	}
	known, err := askEligible(ctx, e.cl, topics.Sorted())
	if err != nil {
		return app.Refused("eligible leader replicas", app.BrokerError(err), "")
	}
	var losses []string
	for _, p := range open {
		losses = append(losses, partitionName(p)+": "+uncleanLoss(p, known[log{p.Topic, p.Partition}]))
	}
	if e.dryRun {
		for i, p := range open {
			e.out.Done(partitionName(p), "would get a leader%s", losses[i][len(partitionName(p)):])
		}
		return nil
	}
	what := fmt.Sprintf("elect %s that may lack acknowledged records", text.Count(len(open), "leader"))
	if err := e.a.Confirm(what, app.Irreversible, losses); err != nil {
		return err
	}
	return e.request(ctx, kadm.ElectLiveReplica, open)
}

// uncleanLoss returns what an unclean election of a partition may lose.
func uncleanLoss(p kadm.PartitionDetail, at eligible) string {
	whole := slices.Concat(p.ISR, at.elr)
	if len(whole) == 0 {
		whole = at.last
	}
	others := slices.DeleteFunc(slices.Clone(p.Replicas), func(r int32) bool { return slices.Contains(whole, r) })
	switch {
	case len(whole) > 0 && len(others) == 0:
		return fmt.Sprintf("only %s may have its records: start it; if it is lost, so are they, and chronikctl topic move gives the partition "+
			"another replica, which can be elected",
			brokersText(whole))
	case len(whole) == 0: // as after chronikd recover, which may lose nothing
		const unknown = "the metadata do not say which replicas have all acknowledged records; "
		if away := p.OfflineReplicas; len(away) > 0 {
			return unknown + fmt.Sprintf("what only %s may have is lost, because not all replicas take part", brokersText(away))
		}
		return unknown + fmt.Sprintf("all of them, on %s, take part, and `chronikctl cluster health` reports whether any record can be lost",
			brokersText(p.Replicas))
	}
	return fmt.Sprintf("%s may have acknowledged records that the other replicas lack, which are lost unless it is elected", brokersText(whole))
}

func (e *election) request(ctx context.Context, how kadm.ElectLeadersHow, open []kadm.PartitionDetail) error {
	set := kadm.TopicsSet{}
	for _, p := range open {
		set.Add(p.Topic, p.Partition)
	}
	answers, err := e.adm.ElectLeaders(ctx, how, set)
	if err != nil {
		return app.Refused("elect leaders", app.Needs(app.BrokerError(err), app.OnCluster("alter")), "")
	}
	after, err := e.leaders(ctx, open, answers)
	if err != nil {
		return app.Refused("read the metadata", app.BrokerError(err), "")
	}
	for _, p := range open {
		name, leads := partitionName(p), after[p.Topic].Partitions[p.Partition].Leader
		switch r, ok := answers[p.Topic][p.Partition]; {
		case !ok:
			e.out.Failed(name, fmt.Errorf("elect a leader of %s: the broker did not answer for it; try again", name))
		case errors.Is(r.Err, kerr.ElectionNotNeeded): // another election came first
			e.out.Done(name, "is led by broker %d", leads)
		case r.Err != nil:
			e.out.Refused(name, "elect a leader of "+name, r.Err, r.ErrMessage)
		default:
			e.out.Done(name, "is led by broker %d, elected now", leads)
		}
	}
	return nil
}

// errNotShown means that a broker's metadata do not show a leader yet that another one has elected.
var errNotShown = errors.New("the metadata of the broker do not show the new leader yet")

// leaders returns the topics of the partitions when the metadata show those that were elected.
func (e *election) leaders(ctx context.Context, open []kadm.PartitionDetail, answers kadm.ElectLeadersResults) (now kadm.TopicDetails,
	err error) {
	err = e.a.While(ctx, func(err error) bool { return errors.Is(err, errNotShown) }, func() (err error) {
		if now, err = e.adm.ListTopicsWithInternal(ctx, topicsOf(open)...); err != nil {
			return err
		}
		for _, p := range open {
			r, ok := answers[p.Topic][p.Partition]
			leads := now[p.Topic].Partitions[p.Partition].Leader
			if ok && r.Err == nil && (leads < 0 || !e.unclean && leads != p.Replicas[0]) {
				return errNotShown
			}
		}
		return nil
	})
	if errors.Is(err, errNotShown) { // there may be another leader since
		err = nil
	}
	return now, err
}

// topicsOf returns the topics of partitions, each once.
func topicsOf(partitions []kadm.PartitionDetail) (names []string) {
	for _, p := range partitions {
		names = append(names, p.Topic)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func partitionName(p kadm.PartitionDetail) string { return fmt.Sprintf("%s-%d", p.Topic, p.Partition) }
