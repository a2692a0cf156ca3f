// Package shareload has members of share groups that do all that members may do, at random: they
// accept, release, reject and renew, keep records in silence until their locks end, and leave or
// vanish. They tell a check.Share of each partition what they see. It belongs to tests only.
package shareload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/testing/check"
)

// Partition is a partition of a topic.
type Partition struct {
	Topic string
	Index int32
}

// Group is a share group. Its fields must not change once it is used.
type Group struct {
	Name   string
	Topics []string
	// Client makes a client of a member, which knows all brokers.
	Client func() (*kgo.Client, error)
	// Judges has the judge of each partition.
	Judges map[Partition]*check.Share
	Seed   uint64
	Lock   time.Duration // of a record, whole seconds
	// Life is for how long a member lives, at most.
	Life time.Duration
	// Letters is the topic of dead letters, empty for none.
	Letters string

	honest  atomic.Bool
	members atomic.Int64
}

// Limit is the largest delivery count in a group.
const Limit = 5

// Settings are what brokers need so that Configure can set short times.
func Settings() []string {
	return []string{"group.share.min.record.lock.duration.ms=1000", "group.share.min.session.timeout.ms=6000",
		"group.share.min.heartbeat.interval.ms=1000"}
}

// Configure sets the configs of the group. It may be repeated.
func (g *Group) Configure(ctx context.Context, cl *kgo.Client) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	group := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: g.Name}
	set := func(name, value string) {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = name, &value
		group.Configs = append(group.Configs, config)
	}
	set("share.auto.offset.reset", "earliest")
	set("share.record.lock.duration.ms", strconv.FormatInt(g.Lock.Milliseconds(), 10))
	set("share.delivery.count.limit", strconv.Itoa(Limit))
	set("share.session.timeout.ms", "6000")
	set("share.heartbeat.interval.ms", "1000")
	if g.Letters != "" {
		set("errors.deadletterqueue.topic.name", g.Letters)
		set("errors.deadletterqueue.copy.record.enable", "true")
		set("chronik.share.retry.backoff.ms", "100")
		set("chronik.share.retry.backoff.max.ms", "1000")
	}
	req.Resources = append(req.Resources, group)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if r := resp.Resources[0]; r.ErrorCode != 0 {
		why := ""
		if r.ErrorMessage != nil {
			why = *r.ErrorMessage
		}
		return fmt.Errorf("%w: %s", kerr.ErrorForCode(r.ErrorCode), why)
	}
	return nil
}

// Work runs one member after the other until ctx ends. Several goroutines may call it, with other
// numbers.
func (g *Group) Work(ctx context.Context, number uint64) {
	random := rand.New(rand.NewPCG(g.Seed, number))
	for ctx.Err() == nil {
		life := g.Life/8 + time.Duration(random.Int64N(int64(g.Life)))
		within, cancel := context.WithTimeout(ctx, life)
		g.member(within, ctx, random)
		cancel()
		_ = pause.Sleep(ctx, time.Duration(random.Int64N(int64(time.Second))))
	}
}

// Finish makes all members accept at once what they get from now on, and what they hold.
func (g *Group) Finish() { g.honest.Store(true) }

// Unfinished returns why not all records are finished, "" if they are, and the start offsets of the
// group. Two calls must not overlap.
func (g *Group) Unfinished(ctx context.Context, admin *kadm.Client) (starts map[Partition]int64, why string) {
	all, err := admin.DescribeShareGroupOffsets(ctx, g.Name)
	if err == nil {
		err = all.Error()
	}
	if err != nil {
		return nil, err.Error()
	}
	starts = map[Partition]int64{}
	for p, judge := range g.Judges {
		o, ok := all[g.Name].Offsets.Lookup(p.Topic, p.Index)
		switch {
		case !ok || o.Err != nil:
			why = fmt.Sprintf("%v: %v; ", p, o.Err)
		case o.StartOffset < 0:
			why += fmt.Sprintf("%v has no start; ", p)
		default:
			judge.Started(o.StartOffset)
			if starts[p] = o.StartOffset; o.Lag != 0 {
				why += fmt.Sprintf("%v starts at %d with a lag of %d; ", p, o.StartOffset, o.Lag)
			}
		}
	}
	return starts, why
}

// Copied tells the judges of a record of the topic of dead letters.
func (g *Group) Copied(r *kgo.Record) error {
	headers := map[string]string{}
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	index, err := strconv.Atoi(headers["__dlq.errors.partition"])
	if err != nil {
		return fmt.Errorf("a copy of %q has the headers %v", r.Value, headers)
	}
	offset, err := strconv.ParseInt(headers["__dlq.errors.offset"], 10, 64)
	judge := g.Judges[Partition{headers["__dlq.errors.topic"], int32(index)}]
	if err != nil || judge == nil || headers["__dlq.errors.group"] != g.Name {
		return fmt.Errorf("a copy of %q has the headers %v", r.Value, headers)
	}
	judge.Copied(check.Record{Offset: offset, Epoch: -1, Value: string(r.Value)})
	return nil
}

// Count returns the numbers of deliveries and of acknowledgements that were answered with success.
func (g *Group) Count() (delivered, answered int) {
	for _, judge := range g.Judges {
		d, a := judge.Count()
		delivered, answered = delivered+d, answered+a
	}
	return delivered, answered
}
