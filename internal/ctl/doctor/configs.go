package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/ctl/cli"
	"github.com/chronik-io/chronik/internal/health"
)

// values are the configs of one topic or broker.
type values map[string]string

// number is a config's value; ok is false where there is none.
func (v values) number(key string) (n int64, ok bool) {
	n, err := strconv.ParseInt(v[key], 10, 64)
	return n, err == nil
}

// configs looks for topics whose configs contradict each other, or the broker's.
func (x *examination) configs(ctx context.Context) error {
	topics := map[string]kadm.TopicDetail{}
	var names []string
	for _, t := range x.Meta.Topics.Sorted() {
		if !t.IsInternal && t.Err == nil {
			topics[t.Topic], names = t, append(names, t.Topic)
		}
	}
	if len(names) == 0 {
		return nil
	}
	found, err := x.adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return cli.Refused("ask for the configs of topics", cli.Words(err), "")
	}
	broker := values{}
	if ids := x.Meta.Brokers.NodeIDs(); len(ids) > 0 {
		all, err := x.adm.DescribeBrokerConfigs(ctx, ids[0])
		if err != nil {
			return cli.Refused("ask for the configs of brokers", cli.Words(err), "")
		}
		for _, r := range all {
			broker = read(r)
		}
	}
	x.Examined("configs of " + cli.Count(len(names), "topic"))
	slices.SortFunc(found, func(a, b kadm.ResourceConfig) int { return slices.Index(names, a.Name) - slices.Index(names, b.Name) })
	for _, r := range found {
		if r.Err == nil {
			x.judgeConfigs(r.Name, topics[r.Name].Partitions.NumReplicas(), read(r), broker)
		}
	}
	return nil
}

func read(r kadm.ResourceConfig) values {
	v := values{}
	for _, c := range r.Configs {
		v[c.Key] = c.MaybeValue()
	}
	return v
}

// judgeConfigs holds a topic's configs together.
func (x *examination) judgeConfigs(topic string, replicas int, v, broker values) {
	where := "topic " + topic
	set := "chronikctl config set topic " + topic + " "
	if n, ok := v.number("min.insync.replicas"); ok && n > int64(replicas) && replicas > 0 {
		x.Add("configs", health.Warn, where, fmt.Sprintf("min.insync.replicas is %d and it has %d replicas: Kafka refuses acks=all, chronik takes it for %d", n, replicas, replicas),
			set+fmt.Sprintf("min.insync.replicas=%d", replicas))
	} else if ok && replicas > 1 && n == int64(replicas) {
		x.Add("configs", health.Warn, where, fmt.Sprintf("min.insync.replicas is %d, as many as it has replicas: acks=all is refused as soon as one is away", n),
			set+fmt.Sprintf("min.insync.replicas=%d", replicas-1))
	}
	if replicas == 1 && len(x.Meta.Brokers) > 1 {
		x.Add("configs", health.Warn, where, fmt.Sprintf("it has one replica in a cluster of %d brokers: with its broker it is gone", len(x.Meta.Brokers)),
			"make it anew with --replication-factor 3, or add replicas")
	}
	bytes, ok1 := v.number("retention.bytes")
	segment, ok2 := v.number("segment.bytes")
	if ok1 && ok2 && bytes >= 0 && bytes < segment {
		x.Add("configs", health.Warn, where, fmt.Sprintf("retention.bytes is %d and a segment has up to %d bytes, which go together: a partition keeps more than was meant", bytes, segment),
			set+fmt.Sprintf("segment.bytes=%d", max(1<<20, bytes/4)))
	}
	largest, ok1 := v.number("max.message.bytes")
	request, ok2 := broker.number("socket.request.max.bytes")
	if ok1 && ok2 && largest > request {
		x.Add("configs", health.Warn, where, fmt.Sprintf("max.message.bytes is %d and the broker takes requests of %d bytes at most: such a batch closes the connection", largest, request),
			set+fmt.Sprintf("max.message.bytes=%d, or raise the broker's socket.request.max.bytes", request))
	}
}
