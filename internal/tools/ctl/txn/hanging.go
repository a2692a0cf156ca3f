package txn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// grace is how much longer than its timeout a transaction may be open: the coordinator aborts it at
// the timeout and then writes the markers.
const grace = time.Minute

// defaultMaxTimeout is Kafka's default of transaction.max.timeout.ms.
const defaultMaxTimeout = 15 * time.Minute

// scope selects partitions, and the age from which a transaction may hang.
type scope struct {
	broker    int32
	topic     string
	partition string
	maxAge    time.Duration

	some []int32 // parsed partition
}

// hanging is a transaction that is open in a partition and that no coordinator will end there.
type hanging struct {
	Topic         string    `json:"topic"`
	Partition     int32     `json:"partition"`
	First         int64     `json:"firstOffset"`
	Stable        *int64    `json:"lastStableOffset"` // nil if it is unknown
	End           *int64    `json:"end"`              // nil if it is unknown
	Held          *int64    `json:"heldOffsets"`      // nil if it is not the one that holds the last stable offset
	AgeMs         int64     `json:"ageMs"`
	Written       time.Time `json:"lastWrittenAt"`
	ProducerID    int64     `json:"producerId"`
	Epoch         int16     `json:"producerEpoch"`
	Coordinator   int32     `json:"coordinatorEpoch"`
	Transactional string    `json:"transactionalId,omitempty"` // empty if no coordinator knows the producer id
	State         string    `json:"state,omitempty"`           // of the transactional id
	Why           string    `json:"reason"`
	Abort         string    `json:"abort"` // the command that ends it
}

func findHanging(a *app.App) *cobra.Command {
	var s scope
	c := &cobra.Command{
		Use: "find-hanging", Short: "Find open transactions that no coordinator will end", Args: app.Args(0, 0, "no argument"),
		Long: "find-hanging asks the leaders of partitions for open transactions, and the coordinators whether they will end them. A\n" +
			"transaction hangs if it is open for a minute longer than its timeout, and its coordinator has neither an open transaction\n" +
			"with that partition nor a decided one. If no coordinator knows its producer id, transaction.max.timeout.ms is the timeout.\n" +
			"Readers of committed records wait for it, and retention and compaction stop there. ABORT WITH shows the command that\n" +
			"ends it. The age is counted from the timestamp of its first record. find-hanging exits with 4 if it finds one.",
		Example: "  chronikctl txn find-hanging\n  chronikctl txn find-hanging --topic orders --max-age 5m\n  chronikctl txn find-hanging --broker 1 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(); err != nil {
				return err
			}
			return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, _ []string) error {
				return runFind(ctx, a, adm, cl, &s)
			})(cmd, args)
		},
	}
	cli.AtLeast(int32(0)).Or(-1, "all").Flag(c.Flags(), &s.broker, "broker", "", -1, "only partitions that this broker leads")
	c.Flags().StringVar(&s.topic, "topic", "", "only this topic")
	c.Flags().StringVarP(&s.partition, "partition", "p", "", "only these partitions of --topic: 3 or 0,2,5-7")
	cli.AtLeast(time.Duration(0)).Or(0, "a minute longer than its timeout").Flag(c.Flags(), &s.maxAge, "max-age", "", 0,
		"age from which a transaction may hang")
	app.CompleteFlag(c, "broker", a.Brokers(0))
	app.CompleteFlag(c, "topic", a.Topics(0))
	return a.Watched(c)
}

// check validates the flags. It sends nothing.
func (s *scope) check() error {
	var err error
	if s.some, err = parse.Partitions(s.partition); err != nil {
		return app.Usage("--partition %w", err)
	}
	if s.some != nil && s.topic == "" {
		return app.Usage("--partition needs --topic")
	}
	return nil
}

func runFind(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, s *scope) error {
	f, err := search(ctx, a, adm, cl, s)
	if err != nil {
		return err
	}
	t := &output.Table{Columns: []string{"TOPIC", "PARTITION#", "FIRST#", "AGE#", "HOLDS#", "PRODUCER ID#", "+EPOCH#", "TRANSACTIONAL ID",
		"+STATE", "REASON"}, Empty: fmt.Sprintf("no hanging transactions: %s with %s examined",
		text.Count(f.partitions, "partition"), text.Count(f.open, "open transaction"))}
	commands := &output.Table{Columns: []string{"ABORT WITH"}}
	for i := range f.found {
		h := &f.found[i]
		holds := "-"
		if h.Held != nil {
			holds = strconv.FormatInt(*h.Held, 10)
		}
		t.Add(h.Topic, h.Partition, h.First, short(time.Duration(h.AgeMs)*time.Millisecond), holds, h.ProducerID, h.Epoch, h.Transactional,
			h.State, h.Why)
		commands.Add(h.Abort)
	}
	tables := []*output.Table{t}
	if len(f.found) > 0 {
		tables = append(tables, commands)
	}
	wrong := append([]error{a.Print(f.found, tables...)}, f.failed...)
	if n := len(f.found); n > 0 {
		hang := text.Plural(n, "transaction hangs", "transactions hang")
		wrong = append(wrong, app.WithCode(app.ExitUnhealthy, fmt.Errorf("%s, see above", hang)))
	}
	return errors.Join(wrong...)
}

// finding is the result of a search.
type finding struct {
	partitions, open int // how many were examined
	found            []hanging
	failed           []error // partitions that could not be examined
}

// search looks for hanging transactions. It asks the leaders first, then the coordinators, then the
// leaders again: a transaction that began or ended meanwhile does not hang.
func search(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, s *scope) (*finding, error) {
	set, topics, err := s.partitions(ctx, adm)
	if err != nil {
		return nil, err
	}
	f := &finding{found: []hanging{}}
	leaders := examine(ctx, adm, set)
	pids := map[int64]bool{}
	for _, w := range sorts.Sorted(maps.Keys(leaders), where.compare) {
		v := leaders[w]
		if v.err != nil {
			f.failed = append(f.failed, v.err)
			delete(leaders, w)
			continue
		}
		f.partitions++
		f.open += len(v.open)
		for _, p := range v.open {
			pids[p.ProducerID] = true
		}
		if len(v.open) == 0 {
			delete(leaders, w)
		}
	}
	if len(leaders) == 0 {
		return f, nil
	}
	by, err := owners(ctx, a, adm, cl, slices.Sorted(maps.Keys(pids)))
	if err != nil {
		return nil, fmt.Errorf("find hanging transactions: %w", err)
	}
	limits := limits{maxAge: s.maxAge, unknown: maxTimeout(ctx, adm)}
	suspects := map[where][]suspect{}
	again := kadm.TopicsSet{}
	for w, v := range leaders {
		for _, p := range v.open {
			x := suspect{p, by[p.ProducerID], 0, unowned(by[p.ProducerID], w)}
			if x.why == "" {
				continue
			}
			x.age = time.Since(beginning(ctx, cl, topics[w.topic].ID, w, v.leader, p))
			if x.age > limits.of(x.owner) {
				suspects[w] = append(suspects[w], x)
				again.Add(w.topic, w.index)
			}
		}
	}
	f.confirm(ctx, adm, suspects, again)
	return f, nil
}

// confirm adds the suspects that are still open.
func (f *finding) confirm(ctx context.Context, adm *kadm.Client, suspects map[where][]suspect, set kadm.TopicsSet) {
	leaders := examine(ctx, adm, set)
	measure(ctx, adm, leaders)
	for _, w := range sorts.Sorted(maps.Keys(suspects), where.compare) {
		v := leaders[w]
		if v.err != nil {
			f.failed = append(f.failed, v.err)
			continue
		}
		for _, x := range suspects[w] {
			if p, still := v.at(x.CurrentTxnStartOffset); still && p.ProducerID == x.ProducerID {
				f.found = append(f.found, x.report(w, v))
			}
		}
	}
}

// partitions returns the partitions of the scope that have a leader.
func (s *scope) partitions(ctx context.Context, adm *kadm.Client) (kadm.TopicsSet, kadm.TopicDetails, error) {
	var names []string
	if s.topic != "" {
		names = []string{s.topic}
	}
	topics, err := adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, nil, app.Refused("look up topics", app.BrokerError(err), "")
	}
	set := kadm.TopicsSet{}
	for _, t := range topics.Sorted() {
		if t.Err != nil && s.topic != "" {
			return nil, nil, app.Refused(s.topic, app.NoTopic(ctx, adm, s.topic), "")
		}
		for _, p := range t.Partitions.Sorted() {
			if (s.some == nil || slices.Contains(s.some, p.Partition)) && (s.broker < 0 || p.Leader == s.broker) {
				set.Add(t.Topic, p.Partition)
			}
		}
		for _, p := range s.some {
			if _, ok := t.Partitions[p]; !ok {
				return nil, nil, fmt.Errorf("%s: the topic has partitions 0 to %d", app.PartitionName(t.Topic, p), len(t.Partitions)-1)
			}
		}
	}
	return set, topics, nil
}

// maxTimeout returns the cluster's transaction.max.timeout.ms, or Kafka's default if it is unknown.
func maxTimeout(ctx context.Context, adm *kadm.Client) time.Duration {
	brokers, err := adm.ListBrokers(ctx)
	if err != nil {
		return defaultMaxTimeout
	}
	most := time.Duration(0)
	answers, _ := adm.DescribeBrokerConfigs(ctx, brokers.NodeIDs()...) // a broker without an answer counts with the default
	for _, r := range answers {
		for _, c := range r.Configs {
			if ms, err := strconv.ParseInt(c.MaybeValue(), 10, 64); c.Key == "transaction.max.timeout.ms" && err == nil {
				most = max(most, time.Duration(ms)*time.Millisecond)
			}
		}
	}
	if most == 0 {
		return defaultMaxTimeout
	}
	return most
}

// abortCommand returns the command that ends a transaction in one partition.
func abortCommand(w where, first int64) string {
	quoted := health.Command("chronikctl", "txn", "abort", "--topic", w.topic, "--partition", strconv.Itoa(int(w.index)), "--start-offset",
		strconv.FormatInt(first, 10))
	return quoted[1 : len(quoted)-1] // without backticks
}
