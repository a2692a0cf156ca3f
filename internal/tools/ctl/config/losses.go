package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// localPlaces is how many connections a broker serves from its own machine above max.connections.
const localPlaces = "10"

// loss is what falls out of logs because of an edit of one entity, and which brokers it closes. The
// numbers are upper bounds, because brokers remove whole segments.
type loss struct {
	records, bytes int64 // bytes of all replicas, 0 if unknown
	partitions     int   // that lose records
	compacted      int64 // records of which compaction keeps the last of each key
	list           []string
	unknown        []error // what could not be counted
	// crowded are brokers that would refuse all new connections, and uncounted those whose
	// connections are not known.
	crowded, uncounted []string
}

// merge adds another loss.
func (l *loss) merge(x *loss) {
	l.records, l.bytes, l.partitions, l.compacted = l.records+x.records, l.bytes+x.bytes, l.partitions+x.partitions, l.compacted+x.compacted
	l.list, l.unknown = append(l.list, x.list...), append(l.unknown, x.unknown...)
	l.crowded, l.uncounted = append(l.crowded, x.crowded...), append(l.uncounted, x.uncounted...)
}

// deletes reports whether records may be lost.
func (l *loss) deletes() bool { return l.records > 0 || l.compacted > 0 || len(l.unknown) > 0 }

// result formats the loss as the end of a sentence, empty if there is none.
func (l *loss) result() string {
	if l == nil {
		return ""
	}
	var parts []string
	if l.records > 0 {
		size := ""
		if l.bytes > 0 {
			size = " (about " + text.Bytes(l.bytes) + " with all replicas)"
		}
		parts = append(parts, fmt.Sprintf("delete up to %s records%s of %s", text.Number(l.records), size,
			text.Count(l.partitions, "partition")))
	}
	if l.compacted > 0 {
		parts = append(parts, "keep only the last record of each key of "+text.Number(l.compacted)+" records")
	}
	if len(l.unknown) > 0 {
		parts = append(parts, "delete records that could not be counted ("+text.OneLine(errors.Join(l.unknown...).Error())+")")
	}
	if len(l.crowded) > 0 {
		parts = append(parts, "refuse all new connections to "+text.Count(len(l.crowded), "broker")+
			", except "+localPlaces+" from its own machine")
	}
	if len(l.uncounted) > 0 {
		parts = append(parts, "perhaps refuse new connections to "+strings.Join(l.uncounted, ", "))
	}
	if len(parts) == 0 {
		return ""
	}
	return ", which would " + strings.Join(parts, " and ")
}

// ask asks if records fall out, or if a time without a unit is suspiciously short. With --dry-run
// it only lists them.
func (d *Edit) ask(a *app.App, entities []Entity, losses map[Entity]*loss) error {
	var names []string
	var all loss
	for _, e := range entities {
		l := losses[e]
		if l == nil { // not counted: a new topic has no records
			l = &loss{}
		}
		all.merge(l)
		names = append(names, e.String())
	}
	short := d.unitless()
	list := slices.Concat(all.list, all.crowded, short)
	if d.DryRun {
		a.NoteLosses(list)
		return nil
	}
	result := all.result()
	if len(entities) == 0 || result == "" && len(short) == 0 {
		return nil
	}
	of := names[0]
	if len(names) > 1 {
		of = text.Count(len(names), "topic")
	}
	back := app.Irreversible
	switch {
	case all.deletes():
	case len(short) > 0:
		back = "No record is old enough to be deleted now; later ones are deleted as they reach it."
	default:
		back = "It deletes no record."
	}
	what := d.String() + " of " + of + result
	if d.creates {
		what = "create " + of + " with " + strings.Join(d.Set, " ")
	}
	return a.Confirm(what, back, list)
}

// AskNew asks before topics are created with configs, as Change does for topics that exist. names
// are the topics that the broker would create.
func AskNew(a *app.App, names, configs []string, dryRun bool) error {
	d := Edit{Set: configs, DryRun: dryRun, creates: true}
	return d.ask(a, Topics(names), nil)
}

// AsksNew reports whether AskNew asks about these configs, or lists something.
func AsksNew(a *app.App, configs []string, dryRun bool) bool {
	d := Edit{Set: configs}
	return (dryRun || a.Asks()) && len(d.unitless()) > 0
}

// loses counts what falls out of logs if an entity is edited. What it cannot count, it lists as
// unknown.
func (d *Edit) loses(ctx context.Context, cl *kgo.Client, e Entity) *loss {
	l := &loss{}
	if most, ok := d.limitsConnections(e); ok {
		l.crowd(ctx, cl, e, most)
	}
	if !d.touchesRetention() {
		return l
	}
	adm := kadm.NewClient(cl)
	topics, err := d.affected(ctx, adm, e)
	if err == nil && len(topics) > 0 {
		err = d.count(ctx, cl, adm, e, topics, l)
	}
	if err == nil && e.Kind == kmsg.ConfigResourceTypeBroker {
		err = hidden(ctx, cl)
	}
	if err != nil {
		l.unknown = append(l.unknown, err)
	}
	return l
}

// onCluster are the operations on the cluster that Kafka authorizes, as bits.
const onCluster = 1<<kmsg.ACLOperationCreate | 1<<kmsg.ACLOperationAlter | 1<<kmsg.ACLOperationDescribe |
	1<<kmsg.ACLOperationClusterAction | 1<<kmsg.ACLOperationDescribeConfigs | 1<<kmsg.ACLOperationAlterConfigs |
	1<<kmsg.ACLOperationIdempotentWrite

// hidden returns an error if there may be topics that the user may not see: a broker leaves them
// out of its lists, and a default concerns them all the same. Who has all rights on the cluster is
// taken for an administrator, who sees all of them.
func hidden(ctx context.Context, cl *kgo.Client) error {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeClusterAuthorizedOperations = true
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return app.Refused("describe the cluster", app.BrokerError(err), "")
	}
	if resp.ClusterAuthorizedOperations&onCluster != onCluster {
		return errors.New("those of topics that you may not see")
	}
	return nil
}

// affected returns the topics whose configs the edit may change.
func (d *Edit) affected(ctx context.Context, adm *kadm.Client, e Entity) (kadm.TopicDetails, error) {
	var names []string
	switch e.Kind {
	case kmsg.ConfigResourceTypeTopic:
		names = append(names, e.Name)
	case kmsg.ConfigResourceTypeBroker:
	default:
		return nil, nil
	}
	topics, err := adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, app.Refused("list topics", app.BrokerError(err), "")
	}
	maps.DeleteFunc(topics, func(_ string, t kadm.TopicDetail) bool { return t.Err != nil })
	return topics, nil
}

// limits are a topic's before and after an edit.
type limits struct{ before, after keeps }

// count adds what the topics lose.
func (d *Edit) count(ctx context.Context, cl *kgo.Client, adm *kadm.Client, e Entity, topics kadm.TopicDetails, l *loss) error {
	shorter, err := d.shorter(ctx, cl, e, topics.Names())
	if err != nil || len(shorter) == 0 {
		return err
	}
	wanted, set := map[string][]int32{}, kadm.TopicsSet{}
	for topic := range shorter {
		for _, p := range topics[topic].Partitions.Sorted() {
			if e.Kind == kmsg.ConfigResourceTypeBroker && e.Name != "" && e.Name != strconv.Itoa(int(p.Leader)) {
				continue // only leaders remove records
			}
			wanted[topic] = append(wanted[topic], p.Partition)
			set.Add(topic, p.Partition)
		}
	}
	ranges, failed, err := app.AskOffsets(ctx, adm, false, wanted)
	if err != nil {
		return err
	}
	locals, err := localStarts(ctx, adm, shorter)
	if err != nil {
		return err
	}
	sizes := app.LogSizes(ctx, adm, set)
	now := time.Now()
	at, err := offsetsAt(ctx, adm, shorter, ranges, failed, now)
	if err != nil {
		return err
	}
	for _, topic := range slices.Sorted(maps.Keys(shorter)) {
		for _, p := range ranges.Partitions(topic) {
			size, known := sizes[topic][p]
			if failed[topic][p] == nil && !known && shorter[topic].after.bytes >= 0 {
				failed.Add(topic, p, errors.New("no broker reports the size of its log"))
			}
			if failed[topic][p] != nil {
				continue
			}
			x := held{start: ranges[topic][p].Start, end: ranges[topic][p].End, bytes: size.Log,
				byTime: func(t time.Time) int64 { return at[t][topic][p] }}
			if o, ok := locals.Lookup(topic, p); ok && o.Err == nil {
				x.local = o.Offset
			}
			l.add(topic, p, shorter[topic], &x, size.All, now)
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(failed)) {
		for _, p := range slices.Sorted(maps.Keys(failed[topic])) {
			l.unknown = append(l.unknown, failed[topic][p])
		}
	}
	return nil
}

// localStarts returns where the local disks begin, of topics whose records in the object store are
// deleted.
func localStarts(ctx context.Context, adm *kadm.Client, topics map[string]limits) (kadm.ListedOffsets, error) {
	var names []string
	for topic, k := range topics {
		if k.after.dropsRemote(k.before) {
			names = append(names, topic)
		}
	}
	return app.LocalStarts(ctx, adm, names...)
}

// add adds what a partition loses; bytes is the size of all its replicas.
func (l *loss) add(topic string, partition int32, k limits, p *held, bytes int64, now time.Time) {
	from, to, has := k.before.cut(p, now), k.after.cut(p, now), p.end-p.start
	if gone := to - from; gone > 0 {
		part := int64(float64(bytes) * float64(gone) / float64(has))
		l.records, l.bytes, l.partitions = l.records+gone, l.bytes+part, l.partitions+1
		l.list = append(l.list, fmt.Sprintf("%s: up to %s of %s records",
			app.PartitionName(topic, partition), text.Number(gone), text.Number(has)))
	}
	if rest := p.end - max(from, to); k.after.compact && !k.before.compact && rest > 0 {
		l.compacted += rest
		l.list = append(l.list, fmt.Sprintf("%s: all but the last record of each key, of %s records",
			app.PartitionName(topic, partition), text.Number(rest)))
	}
}

// offsetsAt returns the offsets at the times before which records are removed, before and after the
// edit. Partitions that the broker does not answer for are added to failed.
func offsetsAt(ctx context.Context, adm *kadm.Client, topics map[string]limits, ranges app.OffsetRanges, failed app.OffsetFailures,
	now time.Time) (map[time.Time]map[string]map[int32]int64, error) {
	wanted := map[time.Time]app.OffsetRanges{}
	for topic, k := range topics {
		for _, k := range []keeps{k.before, k.after} {
			if t, ok := k.horizon(now); ok {
				if wanted[t] == nil {
					wanted[t] = app.OffsetRanges{}
				}
				wanted[t][topic] = ranges[topic]
			}
		}
	}
	found := map[time.Time]map[string]map[int32]int64{}
	for t, r := range wanted {
		offsets, missing, err := r.Find(ctx, adm, parse.Position{Kind: parse.FromTime, Time: t})
		if err != nil {
			return nil, err
		}
		found[t] = offsets
		for topic, partitions := range missing {
			for p, err := range partitions {
				failed.Add(topic, p, err)
			}
		}
	}
	return found, nil
}

// shorter returns the topics that may lose records by the edit. A broker is asked itself: its own
// configs are among the defaults of the topics.
func (d *Edit) shorter(ctx context.Context, cl *kgo.Client, e Entity, topics []string) (map[string]limits, error) {
	var to kmsg.Requestor = cl
	if n, err := strconv.ParseInt(e.Name, 10, 32); err == nil && e.Kind == kmsg.ConfigResourceTypeBroker {
		to = cl.Broker(int(n))
	}
	found := map[string]limits{}
	for some := range slices.Chunk(topics, topicsAtOnce) {
		described, err := describeAll(ctx, to, Topics(some), retentionKeys())
		if err != nil {
			return nil, err
		}
		for topic, configs := range described {
			k := limits{
				before: readKeeps(func(key string) *string { return lookUp(configs, key).Value }),
				after:  readKeeps(func(key string) *string { return d.after(e, lookUp(configs, key)) }),
			}
			if k.after.lessThan(k.before) {
				found[topic.Name] = k
			}
		}
	}
	return found, nil
}

// topicsAtOnce bounds the topics of one request, so that a broker need not answer with megabytes.
const topicsAtOnce = 1000

// lookUp returns the config with a key. Brokers that lack it have no limit by it.
func lookUp(configs []Described, key string) *Described {
	if i := slices.IndexFunc(configs, func(c Described) bool { return c.Key == key }); i >= 0 {
		return &configs[i]
	}
	return &Described{Key: key}
}
