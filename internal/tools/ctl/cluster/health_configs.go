package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/config"
)

// configs finds topics whose configs contradict each other or the broker's.
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
		return app.Refused("describe the configs of topics", app.BrokerError(err), "")
	}
	broker := config.Values{}
	if ids := x.Meta.Brokers.NodeIDs(); len(ids) > 0 {
		all, err := x.adm.DescribeBrokerConfigs(ctx, ids[0])
		if err != nil {
			return app.Refused("describe the configs of brokers", app.BrokerError(err), "")
		}
		for _, r := range all {
			broker = config.Read(r)
		}
	}
	x.Examined("configs of " + text.Count(len(names), "topic"))
	sorts.Sort(found, func(a, b kadm.ResourceConfig) int { return slices.Index(names, a.Name) - slices.Index(names, b.Name) })
	for _, r := range found {
		if r.Err == nil {
			x.judgeConfigs(r.Name, topics[r.Name].Partitions.NumReplicas(), config.Read(r), broker)
		}
	}
	return nil
}

// judgeConfigs adds findings about a topic's configs.
func (x *examination) judgeConfigs(topic string, replicas int, v, broker config.Values) {
	where := "topic " + topic
	for _, c := range config.Cautions(topic, replicas, v, broker) {
		x.Add("configs", health.Note, where, c.Problem, c.Remedy)
	}
	if replicas == 1 && len(x.Meta.Brokers) > 1 {
		x.Add("configs", health.Note, where,
			fmt.Sprintf("it has one replica in a cluster of %d brokers: if its broker is lost, so is the topic", len(x.Meta.Brokers)),
			"recreate it with --replication-factor 3, or add replicas")
	}
}
