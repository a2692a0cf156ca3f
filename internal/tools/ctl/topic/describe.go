package topic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/view"
)

// profileConfig is the topic config with the durability profile.
const profileConfig = "chronik.durability.profile"

// described is a topic in the answer of describe.
type described struct {
	Topic       string            `json:"topic"`
	ID          string            `json:"id,omitempty"`
	Internal    bool              `json:"internal"`
	Replication int               `json:"replicationFactor"`
	Profile     string            `json:"profile,omitempty"` // empty for a broker without profiles
	Configs     map[string]string `json:"configs"`           // configs that are set on the topic
	Records     int64             `json:"records"`           // offsets between start and end: an upper bound
	Size        *int64            `json:"sizeBytes"`         // of all replicas; nil if unknown
	Remote      bool              `json:"remoteStorage"`     // remote.storage.enable
	Partitions  []partition       `json:"partitions"`
	more        bool              // Records lacks those of leaders that do not answer
}

type partition struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"` // -1 for none
	Epoch     int32   `json:"leaderEpoch"`
	Replicas  []int32 `json:"replicas"`
	ISR       []int32 `json:"isr"`
	Offline   []int32 `json:"offlineReplicas"`
	ELR       []int32 `json:"elr,omitempty"`   // eligible leader replicas (KIP-966)
	State     string  `json:"state,omitempty"` // why it has no leader or too few replicas; empty if it has all
	Start     *int64  `json:"start"`           // nil if unknown
	End       *int64  `json:"end"`
	// Of a topic with remote.storage.enable: the first offset on the leader's disk, and the last in
	// the object store, -1 for none. Nil if unknown, and for other topics.
	LocalStart *int64 `json:"localStart,omitempty"`
	Tiered     *int64 `json:"latestTiered,omitempty"`

	Size *int64   `json:"sizeBytes"`
	Dirs []string `json:"logDirs"`
	// Behind are the records that each replica lacks, by broker id; -1 if the broker does not
	// answer. Replicas that lack nothing are left out.
	Behind   map[int32]int64 `json:"behind,omitempty"`
	Retained string          `json:"retained,omitempty"` // why the oldest segment has not been deleted; empty if unknown
	Error    string          `json:"error,omitempty"`
}

func describe(a *app.App) *cobra.Command {
	var regex bool
	c := &cobra.Command{
		Use: "describe NAME...", Short: "Show partitions, offsets, sizes, profile and the configs that are set",
		Example: "  chronikctl topic describe orders -o wide\n  chronikctl topic describe --regex 'orders-.*'",
		Args:    app.Args(1, -1, "at least one topic"), ValidArgsFunction: a.Topics(0),
		RunE: a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, names []string) error {
			topics, missing, err := app.FindTopics(ctx, adm, names, regex)
			if err != nil {
				return err
			}
			var failed []error
			for _, name := range names {
				if e, ok := missing[name]; ok {
					failed = append(failed, app.Refused("describe "+name, e, ""))
				}
			}
			if len(topics) > 0 {
				failed = append([]error{show(ctx, a, adm, cl, topics)}, failed...)
			}
			return errors.Join(failed...)
		}),
	}
	c.Flags().BoolVarP(&regex, "regex", "r", false, app.RegexHelp)
	cli.Instead(c, map[string]string{"--all": "--regex '.*' describes all topics"})
	return a.Watched(c)
}

// facts is what the broker returns in addition to the metadata.
type facts struct {
	starts, ends kadm.ListedOffsets
	// locals and tiered are of topics with remote.storage.enable.
	locals, tiered kadm.ListedOffsets
	configs        kadm.ResourceConfigs
	dirs           kadm.DescribedAllLogDirs // empty if the broker lacks the API
	logs           map[log]view.Log         // from the admin port, if there is one
	eligible       map[log]eligible
}

type log struct {
	topic     string
	partition int32
}

// logsOf returns the admin port's information about logs: why old segments remain, and errors. It
// returns nil without an admin port.
func logsOf(ctx context.Context, a *app.App, topics []string) (map[log]view.Log, error) {
	p := app.AdminPortOf(a)
	if p == nil {
		return nil, nil
	}
	logs, err := p.Logs(ctx, topics...)
	if err != nil && !p.Named {
		return nil, nil // the settings do not name an admin port
	}
	all := map[log]view.Log{}
	for _, l := range logs {
		all[log{l.Topic, l.Partition}] = l
	}
	return all, err
}

// ask fetches offsets, sizes and configs.
func ask(ctx context.Context, adm *kadm.Client, topics []kadm.TopicDetail) (facts, error) {
	f, err := askHoldings(ctx, adm, topics)
	if err != nil {
		return f, err
	}
	var names []string
	for _, t := range topics {
		names = append(names, t.Topic)
	}
	if f.configs, err = adm.DescribeTopicConfigs(ctx, names...); err != nil {
		return f, app.Refused("configs", app.Needs(app.BrokerError(err), app.OnTopic("describe-configs", strings.Join(names, ","))), "")
	}
	err = f.askTiers(ctx, adm)
	return f, err
}

// askTiers fetches the offsets of topics with remote.storage.enable that depend on it. A broker
// that does not know them answers with an error for each partition.
func (f *facts) askTiers(ctx context.Context, adm *kadm.Client) (err error) {
	var names []string
	for _, r := range f.configs {
		if remote(r.Configs) {
			names = append(names, r.Name)
		}
	}
	if f.locals, err = app.LocalStarts(ctx, adm, names...); err == nil {
		f.tiered, err = app.LastTiered(ctx, adm, names...)
	}
	return err
}

// remote reports whether a topic has remote.storage.enable.
func remote(configs []kadm.Config) bool {
	return slices.ContainsFunc(configs, func(c kadm.Config) bool { return c.Key == "remote.storage.enable" && c.MaybeValue() == "true" })
}

// askHoldings fetches offsets and sizes.
func askHoldings(ctx context.Context, adm *kadm.Client, topics []kadm.TopicDetail) (f facts, err error) {
	var names []string
	set := kadm.TopicsSet{}
	for _, t := range topics {
		names = append(names, t.Topic)
		set.Add(t.Topic, t.Partitions.Numbers()...)
	}
	f.starts, err = adm.ListStartOffsets(ctx, names...)
	if app.NoneAnswered(err) {
		return f, app.Refused("start offsets", app.BrokerError(err), "")
	}
	f.ends, err = adm.ListEndOffsets(ctx, names...)
	if app.NoneAnswered(err) {
		return f, app.Refused("end offsets", app.BrokerError(err), "")
	}
	f.dirs, err = adm.DescribeAllLogDirs(ctx, set)
	if app.NoneAnswered(err) && !app.IsUnsupported(app.BrokerError(err)) && !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return f, app.Refused("log directories", app.Needs(app.BrokerError(err), app.OnCluster("describe")), "")
	}
	return f, nil
}

func show(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, topics []kadm.TopicDetail) error {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Topic
	}
	var logs map[log]view.Log
	var unasked error // reported after the broker's own answer
	var asked sync.WaitGroup
	asked.Go(func() { logs, unasked = logsOf(ctx, a, names) }) // a port that hangs does not add its time
	defer asked.Wait()
	f, err := ask(ctx, adm, topics)
	if err != nil {
		return err
	}
	if f.eligible, err = askEligible(ctx, cl, topics); err != nil {
		return app.Refused("eligible leader replicas", app.BrokerError(err), "")
	}
	asked.Wait()
	f.logs = logs
	all := []described{}
	var tables []*output.Table
	for _, t := range topics {
		d := f.describe(t)
		all = append(all, d)
		tables = append(tables, d.table())
	}
	return errors.Join(a.Print(all, tables...), unasked)
}

func (f *facts) describe(t kadm.TopicDetail) described {
	d := described{Topic: t.Topic, ID: id(t.ID), Internal: t.IsInternal, Replication: t.Partitions.NumReplicas(),
		Configs: map[string]string{}}
	for _, r := range f.configs {
		for _, c := range r.Configs {
			if r.Name != t.Topic {
				continue
			}
			d.Remote = d.Remote || remote([]kadm.Config{c})
			if c.Key == profileConfig {
				d.Profile = c.MaybeValue()
			}
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
				d.Configs[c.Key] = c.MaybeValue()
			}
		}
	}
	for _, p := range t.Partitions.Sorted() {
		x := f.partition(p)
		if x.Start != nil && x.End != nil {
			d.Records += *x.End - *x.Start
		} else {
			d.more = true
		}
		d.Size = sum(d.Size, x.Size)
		d.Partitions = append(d.Partitions, x)
	}
	return d
}

func (f *facts) partition(p kadm.PartitionDetail) partition {
	x := partition{Partition: p.Partition, Leader: p.Leader, Epoch: p.LeaderEpoch, Replicas: ids(p.Replicas), ISR: ids(p.ISR),
		Offline: ids(p.OfflineReplicas), Dirs: []string{}}
	if p.Err != nil {
		x.Error = p.Err.Error()
	}
	offset := func(l kadm.ListedOffsets) *int64 {
		o, ok := l.Lookup(p.Topic, p.Partition)
		if !ok || o.Err != nil {
			return nil
		}
		return &o.Offset
	}
	x.Start, x.End, x.LocalStart, x.Tiered = offset(f.starts), offset(f.ends), offset(f.locals), offset(f.tiered)
	f.dirs.Each(func(dir kadm.DescribedLogDir) {
		if in, ok := dir.Topics.Lookup(p.Topic, p.Partition); ok && !in.IsFuture {
			x.Size = sum(x.Size, &in.Size)
			x.Dirs = append(x.Dirs, fmt.Sprintf("%d:%s", dir.Broker, dir.Dir))
		}
	})
	slices.Sort(x.Dirs)
	x.Behind = f.behind(p)
	at := f.eligible[log{p.Topic, p.Partition}]
	at.least = f.minISR(p.Topic)
	x.ELR, x.State = at.elr, state(&x, at, p.Err)
	if x.State == "" && (x.Start == nil || x.End == nil) {
		x.State = fmt.Sprintf("its leader, broker %d, does not answer", x.Leader)
	}
	l := f.logs[log{p.Topic, p.Partition}]
	x.Retained = l.Retained
	if own := l.Problem(); own != "" {
		x.Error = own
	} else if l.Tier != nil && l.Tier.Error != "" {
		x.Error = fmt.Sprintf("copies to the object store fail since %s: %s", time.UnixMilli(l.Tier.FailingMs).UTC().Format(time.RFC3339),
			l.Tier.Error)
	}
	return x
}

// minISR returns min.insync.replicas of a topic, 0 if it is not known.
func (f *facts) minISR(topic string) int {
	for _, r := range f.configs {
		for _, c := range r.Configs {
			if n, err := strconv.Atoi(c.MaybeValue()); r.Name == topic && c.Key == "min.insync.replicas" && err == nil {
				return n
			}
		}
	}
	return 0
}

// behind returns what the replicas of a partition lack. Replicas in sync lack nothing that matters:
// what they have not told their leader yet is on its way.
func (f *facts) behind(p kadm.PartitionDetail) map[int32]int64 {
	var all map[int32]int64
	for _, id := range p.Replicas {
		if id == p.Leader || slices.Contains(p.ISR, id) {
			continue
		}
		lag := int64(-1)
		for _, dir := range f.dirs[id] {
			if in, ok := dir.Topics.Lookup(p.Topic, p.Partition); ok && !in.IsFuture {
				lag = in.OffsetLag
			}
		}
		if lag != 0 {
			if all == nil {
				all = map[int32]int64{}
			}
			all[id] = lag
		}
	}
	return all
}

// behindText formats what replicas lack: "3: 120".
func behindText(all map[int32]int64) string {
	var list []string
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if all[id] < 0 {
			list = append(list, fmt.Sprintf("%d: ?", id))
		} else {
			list = append(list, fmt.Sprintf("%d: %d", id, all[id]))
		}
	}
	return strings.Join(list, ", ")
}

// offsets formats the number of records.
func (d *described) offsets() string {
	if d.more {
		return "≥ " + text.Number(d.Records)
	}
	return text.Number(d.Records)
}

// table formats a topic for people.
func (d *described) table() *output.Table {
	head := []string{"topic " + d.Topic, "id " + cmp.Or(d.ID, "-"), text.Count(len(d.Partitions), "partition"),
		fmt.Sprintf("replication factor %d", d.Replication),
		d.offsets() + " offsets", size(d.Size)}
	if d.Profile != "" {
		head = append(head, "profile "+d.Profile)
	}
	title := strings.Join(head, "  ")
	for _, name := range slices.Sorted(maps.Keys(d.Configs)) {
		title += "\nconfig " + name + "=" + d.Configs[name]
	}
	t := &output.Table{Title: title, Columns: []string{"PARTITION#", "LEADER#", "EPOCH#", "REPLICAS", "ISR", "START#", "END#", "SIZE#",
		"+OFFLINE", "+DIRECTORIES", "+RETAINED", "+ERROR"}}
	if d.Remote {
		t.Columns = append(t.Columns, "LOCAL START#", "LAST TIERED#")
	}
	impaired := slices.ContainsFunc(d.Partitions, func(p partition) bool { return p.State != "" })
	if impaired {
		t.Columns = append(t.Columns, "ELR", "BEHIND", "STATE")
	}
	for _, p := range d.Partitions {
		row := []any{p.Partition, p.Leader, p.Epoch, text.Numbers(p.Replicas), text.Numbers(p.ISR), known(p.Start), known(p.End),
			size(p.Size), text.Numbers(p.Offline), strings.Join(p.Dirs, ","), p.Retained, p.Error}
		if d.Remote {
			row = append(row, known(p.LocalStart), known(p.Tiered))
		}
		if impaired {
			row = append(row, text.Numbers(p.ELR), behindText(p.Behind), p.State)
		}
		t.Add(row...)
	}
	return t
}

// ids returns an empty list for nil, so that JSON does not contain null.
func ids(list []int32) []int32 {
	if list == nil {
		return []int32{}
	}
	return list
}

func sum(a, b *int64) *int64 {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	s := *a + *b
	return &s
}

func known(n *int64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

func size(n *int64) string {
	if n == nil {
		return "?"
	}
	return text.Bytes(*n)
}
