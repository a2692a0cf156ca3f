package config

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Values are the configs of one topic or broker, by key.
type Values map[string]string

// number returns a config as a number. ok is false if it is not one.
func (v Values) number(key string) (n int64, ok bool) {
	n, err := strconv.ParseInt(v[key], 10, 64)
	return n, err == nil
}

// Read returns the values in an answer about a topic or broker.
func Read(r kadm.ResourceConfig) Values {
	v := Values{}
	for _, c := range r.Configs {
		v[c.Key] = c.MaybeValue()
	}
	return v
}

// Caution is a topic config that probably does not do what was intended.
type Caution struct {
	Keys    []string // the topic configs that may be wrong
	Problem string
	Remedy  string
}

// minISR is the config that is called the same for topics and brokers.
const minISR = "min.insync.replicas"

// OfDefault reports whether the caution is about min.insync.replicas alone, and a default of all
// brokers sets it: there the remedy is one change for all topics.
func (c *Caution) OfDefault(of *Configs) bool {
	return len(c.Keys) == 1 && c.Keys[0] == minISR && slices.Contains(of.defaults, minISR)
}

// LowerInherited returns the remedy for topics that inherit a min.insync.replicas which is too high
// for them. The default stays: it protects topics with more replicas. replicas is the smallest
// number of replicas that one of them has.
func LowerInherited(replicas int) string {
	return fmt.Sprintf("chronikctl config set topic TOPIC %s=%d, for each of them", minISR, max(1, replicas-1))
}

// lowerDefault returns the remedy for a default that no topic could meet.
func lowerDefault(brokers int) string {
	return fmt.Sprintf("chronikctl config set broker %s %s=%d; if the brokers' configuration sets it, correct it there, too", allBrokers,
		minISR, max(1, brokers-1))
}

// warnBrokers prints a caution if a default of brokers asks for more in-sync replicas than a topic
// can have. It ignores errors, because the change itself has succeeded.
func warnBrokers(ctx context.Context, a *app.App, adm *kadm.Client, entities []string, planned map[string]string) {
	n, set := Values(planned).number(minISR)
	if len(entities) == 0 || !set {
		return
	}
	meta, err := adm.Metadata(ctx)
	if err != nil {
		return
	}
	if all := CountBrokers(meta); n > int64(all) {
		a.Note("warning: %s: min.insync.replicas is %d and the cluster has %s, so that no topic has so many replicas: Kafka refuses acks=all, "+
			"chronik treats it as the number of replicas; %s", strings.Join(entities, ", "), n, text.Count(all, "broker"),
			lowerDefault(all))
	}
}

// CountBrokers returns how many brokers a cluster has: those that are active, and those that have
// replicas of the topics in meta.
func CountBrokers(meta kadm.Metadata) int {
	all := map[int32]bool{}
	for _, id := range meta.Brokers.NodeIDs() {
		all[id] = true
	}
	meta.Topics.EachPartition(func(p kadm.PartitionDetail) {
		for _, id := range p.Replicas {
			all[id] = true
		}
	})
	return len(all)
}

// Cautions checks a topic's configs against each other, its replicas and the broker's configs.
// brokers is how many could have replicas.
func Cautions(topic string, replicas, brokers int, v, broker Values) (all []Caution) {
	const retention, segmentBytes, maxMessage = "retention.bytes", "segment.bytes", "max.message.bytes"
	set := "chronikctl config set topic " + topic + " "
	add := func(keys []string, problem, remedy string, args ...any) {
		all = append(all, Caution{keys, problem, set + fmt.Sprintf(remedy, args...)})
	}
	if n, ok := v.number(minISR); ok && n > int64(replicas) && replicas > 0 {
		add([]string{minISR}, fmt.Sprintf("min.insync.replicas is %d and it has %s: Kafka refuses acks=all, chronik treats it as %d", n,
			text.Count(replicas, "replica"), replicas), "min.insync.replicas=%d", max(1, replicas-1))
	} else if ok && replicas > 1 && n == int64(replicas) {
		add([]string{minISR},
			fmt.Sprintf("min.insync.replicas is %d, the number of its replicas: acks=all is refused as soon as one replica fails", n),
			"min.insync.replicas=%d", replicas-1)
		if brokers > replicas { // another replica instead of fewer copies of what is acknowledged
			all[len(all)-1].Remedy = fmt.Sprintf("chronikctl topic alter %s --replication-factor %d", topic, replicas+1)
		}
	}
	size, ok1 := v.number(retention)
	segment, ok2 := v.number(segmentBytes)
	if ok1 && ok2 && size >= 0 && size < segment {
		add([]string{retention, segmentBytes},
			fmt.Sprintf("retention.bytes is %d, but segments of up to %d bytes are deleted as a whole: a partition keeps "+
				"more than intended", size, segment), "segment.bytes=%d", max(1<<20, size/4))
	}
	largest, ok1 := v.number(maxMessage)
	request, ok2 := broker.number("socket.request.max.bytes")
	if ok1 && ok2 && largest > request {
		add([]string{maxMessage},
			fmt.Sprintf(
				"max.message.bytes is %d, but the broker accepts requests of at most %d bytes: a larger batch closes the connection",
				largest, request), "max.message.bytes=%d, or raise the broker's socket.request.max.bytes", request)
	}
	return all
}

// Warn prints cautions about topics after some of their configs were set. It fetches the present
// configs and applies planned to them. It ignores errors, because the change itself has succeeded.
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
		for _, c := range Cautions(r.Name, meta.Topics[r.Name].Partitions.NumReplicas(), CountBrokers(meta), v, broker) {
			if slices.ContainsFunc(c.Keys, func(key string) bool { _, set := planned[key]; return set }) {
				a.Note("warning: topic %s: %s; %s", r.Name, c.Problem, c.Remedy)
			}
		}
	}
}
