package cluster

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
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
	found, failed, err := config.ReadAll(ctx, x.cl, config.Topics(names))
	if err != nil {
		return err
	}
	for _, name := range names {
		x.lacks("configs of topic "+name, failed[name])
	}
	broker := config.Values{}
	if ids := x.Meta.Brokers.NodeIDs(); len(ids) > 0 {
		one := config.Broker(ids[0])
		all, failed, err := config.ReadAll(ctx, x.cl, []config.Entity{one})
		if err == nil {
			err = failed[one.Name]
		}
		if !x.lacks("configs of brokers", err) && err != nil {
			return err
		}
		broker = all[one.Name]
	}
	if len(found) == 0 {
		return nil
	}
	x.Examined("configs of " + text.Count(len(found), "topic"))
	for _, name := range names {
		if v, ok := found[name]; ok {
			x.judgeConfigs(name, topics[name].Partitions.NumReplicas(), v, broker)
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
