package topic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/move"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// destination is a line of a plan.
type destination struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Replicas  []int32 `json:"replicas"`
}

func moveCommand(a *app.App) *cobra.Command {
	var o move.Options
	var file string
	var cancel bool
	c := &cobra.Command{
		Use: "move [TOPIC[:PARTITIONS] [BROKERS]]", Short: "Move partitions to brokers, or list the moves in progress",
		Args: app.Args(0, 2, "a topic or partitions, and brokers"), ValidArgsFunction: a.Topics(1),
		Long: "move gives partitions the replicas on the brokers that are listed, the preferred leader first. --file reads a plan as JSON, in the\n" +
			"format of Kafka's reassignments. Without an argument, move lists the moves in progress, of all commands. --cancel restores the\n" +
			"replicas before the move; that is refused while too few of them are in sync.\n" + move.Help,
		Example: "  chronikctl topic move orders:0,2 1,2,5 --dry-run\n  chronikctl topic move --file plan.json --throttle 50MiB\n  chronikctl topic move",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cancel && (file != "" || len(args) != 1):
				return app.Usage("--cancel takes one TOPIC[:PARTITIONS], and nothing else")
			case file != "" && len(args) > 0:
				return app.Usage("give either --file or partitions")
			case file == "" && !cancel && len(args) == 1:
				return app.Usage("to which brokers? Write for example chronikctl topic move %s 1,2,3, the preferred leader first", args[0])
			}
			if file == "" && len(args) == 0 {
				return a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error { return listMoves(ctx, a, adm) })(cmd, nil)
			}
			wanted, err := destinations(file, args)
			if err != nil {
				return err
			}
			return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, _ []string) error {
				if wanted, err = existing(ctx, adm, wanted); err != nil {
					return err
				}
				if cancel {
					return cancelMoves(ctx, a, adm, wanted, o.DryRun)
				}
				return moveTo(ctx, a, adm, cl, wanted, o)
			})(cmd, nil)
		},
	}
	o.Flags(c)
	c.Flags().StringVar(&file, "file", "", `plan to read: {"partitions":[{"topic":"orders","partition":0,"replicas":[1,2,5]}]}`)
	c.Flags().BoolVar(&cancel, "cancel", false, "cancel the moves in progress of the partitions")
	const list = "without an argument, topic move lists the moves in progress"
	cli.Instead(c, map[string]string{"--status": list, "--list": list, "--verify": list})
	return c
}

// destinations returns what the command line asks for. A partition of -1 stands for all.
func destinations(file string, args []string) (list []destination, err error) {
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, app.Usage("--file: %w", err)
		}
		var plan struct {
			Partitions []destination `json:"partitions"`
		}
		if err := json.Unmarshal(b, &plan); err != nil {
			return nil, app.Usage("--file %s is no plan: %w; move --help shows the format", file, err)
		}
		for _, d := range plan.Partitions {
			if d.Topic == "" || len(d.Replicas) == 0 || d.Partition < 0 {
				return nil, app.Usage("--file %s: each partition needs a topic, a partition and replicas", file)
			}
		}
		if len(plan.Partitions) == 0 {
			return nil, app.Usage("--file %s: it has no partitions", file)
		}
		return plan.Partitions, nil
	}
	topic, partitions, err := parse.TopicPartitions(args[0])
	if err != nil {
		return nil, app.Usage("%w", err)
	}
	var brokers []int32
	if len(args) > 1 {
		if brokers, err = brokerList(args[1]); err != nil {
			return nil, err
		}
	}
	if partitions == nil {
		partitions = []int32{-1}
	}
	for _, p := range partitions {
		list = append(list, destination{topic, p, brokers})
	}
	return list, nil
}

// brokerList parses 1,2,5. The order counts.
func brokerList(s string) (ids []int32, err error) {
	for _, part := range strings.Split(s, ",") {
		id, err := strconv.ParseUint(part, 10, 31)
		if err != nil || slices.Contains(ids, int32(id)) {
			return nil, app.Usage("%q is not a list of different brokers; write for example 1,2,5, the preferred leader first", s)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// existing returns the destinations with the partitions that there are.
func existing(ctx context.Context, adm *kadm.Client, wanted []destination) (list []destination, err error) {
	var names []string
	for _, d := range wanted {
		names = append(names, d.Topic)
	}
	slices.Sort(names)
	topics, missing, err := app.FindTopics(ctx, adm, slices.Compact(names), false)
	if err != nil {
		return nil, err
	}
	for name, err := range missing {
		return nil, app.Refused("move "+name, err, "")
	}
	for _, d := range wanted {
		t := topics[slices.IndexFunc(topics, func(t kadm.TopicDetail) bool { return t.Topic == d.Topic })]
		if _, ok := t.Partitions[d.Partition]; !ok && d.Partition >= 0 {
			return nil, app.WithCode(app.ExitFailed, fmt.Errorf("%s has no partition %d, but %s; nothing was moved", d.Topic, d.Partition,
				text.Count(len(t.Partitions), "partition")))
		}
		if d.Partition >= 0 {
			list = append(list, d)
			continue
		}
		for _, n := range t.Partitions.Numbers() {
			list = append(list, destination{d.Topic, n, slices.Clone(d.Replicas)})
		}
	}
	return list, nil
}

func moveTo(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, wanted []destination, o move.Options) error {
	p, _, err := move.Read(ctx, adm)
	if err != nil {
		return err
	}
	for _, d := range wanted {
		if err := p.Set(d.Topic, d.Partition, d.Replicas); err != nil {
			return app.WithCode(app.ExitFailed, err)
		}
	}
	if fewer := p.Fewer(); len(fewer) > 0 && !o.DryRun {
		const back = "It deletes the other replicas; chronikctl topic alter NAME --replication-factor N copies them again."
		if err := a.Confirm("leave "+text.Count(len(fewer), "partition")+" with fewer replicas", back, fewer); err != nil {
			return err
		}
	}
	var out app.Outcomes
	err = p.Run(ctx, a, adm, cl, o, &out)
	if err == nil && out.Empty() {
		for _, d := range wanted {
			out.Done(fmt.Sprintf("%s-%d", d.Topic, d.Partition), "is on brokers %s", text.Numbers(d.Replicas))
		}
	}
	return errors.Join(a.PrintOutcomes(&out), err)
}

func cancelMoves(ctx context.Context, a *app.App, adm *kadm.Client, wanted []destination, dryRun bool) error {
	moving, err := app.Moves(ctx, adm)
	if err != nil {
		return err
	}
	var out app.Outcomes
	var req kadm.AlterPartitionAssignmentsReq
	for _, d := range wanted {
		name := fmt.Sprintf("%s-%d", d.Topic, d.Partition)
		switch _, moves := moving[d.Topic][d.Partition]; {
		case !moves:
			out.Done(name, "does not move")
		case dryRun:
			out.Done(name, "would stop moving")
		default:
			req.CancelAssign(d.Topic, d.Partition)
		}
	}
	if len(req) > 0 {
		answers, err := adm.AlterPartitionAssignments(ctx, req)
		if err != nil {
			return app.Refused("cancel moves", app.Needs(app.BrokerError(err), app.OnCluster("alter")), "")
		}
		for _, x := range answers.Sorted() {
			name := fmt.Sprintf("%s-%d", x.Topic, x.Partition)
			if x.Err != nil {
				out.Refused(name, "cancel the move of "+name, x.Err, x.ErrMessage)
				continue
			}
			out.Done(name, "moves no longer")
		}
	}
	return a.PrintOutcomes(&out)
}

// moveInProgress is a line of the list of moves.
type moveInProgress struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Replicas  []int32 `json:"replicas"`
	Adding    []int32 `json:"adding"`
	Removing  []int32 `json:"removing"`
}

func listMoves(ctx context.Context, a *app.App, adm *kadm.Client) error {
	moving, err := app.Moves(ctx, adm)
	if err != nil {
		return err
	}
	list := []moveInProgress{}
	t := &output.Table{Columns: []string{"TOPIC", "PARTITION#", "REPLICAS", "COPYING TO", "LEAVING"}, Empty: "no partition is being moved"}
	for _, m := range moving.Sorted() {
		list = append(list, moveInProgress{m.Topic, m.Partition, m.Replicas, m.AddingReplicas, m.RemovingReplicas})
		t.Add(m.Topic, m.Partition, text.Numbers(m.Replicas), text.Numbers(m.AddingReplicas), text.Numbers(m.RemovingReplicas))
	}
	return a.Print(list, t)
}
