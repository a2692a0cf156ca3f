package config

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/text"
)

// Values are the configs of one topic or broker, by key.
type Values map[string]string

// number is a config's value; ok is false where there is none.
func (v Values) number(key string) (n int64, ok bool) {
	n, err := strconv.ParseInt(v[key], 10, 64)
	return n, err == nil
}

// Read takes the values of a topic or broker from an answer.
func Read(r kadm.ResourceConfig) Values {
	v := Values{}
	for _, c := range r.Configs {
		v[c.Key] = c.MaybeValue()
	}
	return v
}

// Caution is a config of a topic that does not do what was probably meant.
type Caution struct {
	Keys    []string // of the topic: any of them may be the wrong one
	Problem string
	Remedy  string
}

// Cautions holds a topic's configs against each other, its replicas and the broker's configs.
func Cautions(topic string, replicas int, v, broker Values) (all []Caution) {
	const minISR, retention, segmentBytes, maxMessage = "min.insync.replicas", "retention.bytes", "segment.bytes", "max.message.bytes"
	set := "chronikctl config set topic " + topic + " "
	add := func(keys []string, problem, remedy string, args ...any) {
		all = append(all, Caution{keys, problem, set + fmt.Sprintf(remedy, args...)})
	}
	if n, ok := v.number(minISR); ok && n > int64(replicas) && replicas > 0 {
		add([]string{minISR}, fmt.Sprintf("min.insync.replicas is %d and it has %s: Kafka refuses acks=all, chronik takes it for %d", n,
			text.Count(replicas, "replica"), replicas), "min.insync.replicas=%d", replicas)
	} else if ok && replicas > 1 && n == int64(replicas) {
		add([]string{minISR}, fmt.Sprintf("min.insync.replicas is %d, as many as it has replicas: acks=all is refused as soon as one is away", n),
			"min.insync.replicas=%d", replicas-1)
	}
	size, ok1 := v.number(retention)
	segment, ok2 := v.number(segmentBytes)
	if ok1 && ok2 && size >= 0 && size < segment {
		add([]string{retention, segmentBytes}, fmt.Sprintf("retention.bytes is %d and a segment has up to %d bytes, which go together: a partition keeps "+
			"more than was meant", size, segment), "segment.bytes=%d", max(1<<20, size/4))
	}
	largest, ok1 := v.number(maxMessage)
	request, ok2 := broker.number("socket.request.max.bytes")
	if ok1 && ok2 && largest > request {
		add([]string{maxMessage}, fmt.Sprintf("max.message.bytes is %d and the broker takes requests of %d bytes at most: such a batch closes the connection",
			largest, request), "max.message.bytes=%d, or raise the broker's socket.request.max.bytes", request)
	}
	return all
}

// Warn tells people of cautions about topics of which some configs were just set. It asks
// for what there is now; planned goes over it. Where that cannot be asked it says nothing:
// the change itself has succeeded.
func Warn(ctx context.Context, a *app.App, adm *kadm.Client, topics []string, planned map[string]string) {
	if len(topics) == 0 || len(planned) == 0 {
		return
	}
	meta, err := adm.Metadata(ctx, topics...)
	if err != nil {
		return
	}
	found, err := adm.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return
	}
	broker := Values{}
	if ids := meta.Brokers.NodeIDs(); len(ids) > 0 {
		if all, err := adm.DescribeBrokerConfigs(ctx, ids[0]); err == nil && len(all) > 0 {
			broker = Read(all[0])
		}
	}
	for _, r := range found {
		v := Read(r)
		for key, value := range planned {
			v[key] = value
		}
		for _, c := range Cautions(r.Name, meta.Topics[r.Name].Partitions.NumReplicas(), v, broker) {
			if slices.ContainsFunc(c.Keys, func(key string) bool { _, set := planned[key]; return set }) {
				a.Note("warning: topic %s: %s; %s", r.Name, c.Problem, c.Remedy)
			}
		}
	}
}
