package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	// Brokers that stand still would end the examination of the others.
	silent := func(id int32) bool { return slices.Contains(x.silent, id) }
	if ids := slices.DeleteFunc(x.Meta.Brokers.NodeIDs(), silent); len(ids) > 0 {
		one := config.OneBroker(ids[0])
		all, failed, err := config.ReadAll(ctx, x.cl, []config.Entity{one})
		if err == nil {
			err = failed[one.Name]
		}
		if !x.lacks("configs of brokers", err) && err != nil {
			return err
		}
		broker = all[one.Name].Values
	}
	if len(found) == 0 {
		return nil
	}
	x.Examined("configs of " + text.Count(len(found), "topic"))
	var inherited inherited
	for _, name := range names {
		if v, ok := found[name]; ok {
			x.judgeConfigs(name, topics[name].Partitions.NumReplicas(), &v, broker, &inherited)
		}
	}
	x.addInherited(&inherited)
	return nil
}

// inherited are the topics that have a problem because of a default of all brokers.
type inherited struct {
	problems []string            // in the order in which they were found
	topics   map[string][]string // by problem
	replicas int                 // the smallest number that one of the topics has
}

func (h *inherited) add(problem, topic string, replicas int) {
	if h.topics == nil {
		h.topics, h.replicas = map[string][]string{}, replicas
	}
	if h.topics[problem] == nil {
		h.problems = append(h.problems, problem)
	}
	h.topics[problem], h.replicas = append(h.topics[problem], topic), min(h.replicas, replicas)
}

// addInherited adds one finding for each problem that topics have because of a default.
func (x *examination) addInherited(h *inherited) {
	const shown = 5
	for _, problem := range h.problems {
		all := h.topics[problem]
		list := strings.Join(all[:min(len(all), shown)], ", ")
		if more := len(all) - shown; more > 0 {
			list += fmt.Sprintf(", and %d more", more)
		}
		x.Add("configs", health.Note, "broker default", "each topic that inherits it, "+list+": "+problem,
			config.LowerInherited(h.replicas))
	}
}

// judgeConfigs adds findings about a topic's configs, except those that a default causes, which it
// adds to h.
func (x *examination) judgeConfigs(topic string, replicas int, v *config.Configs, broker config.Values, h *inherited) {
	where := "topic " + topic
	for _, c := range config.Cautions(topic, replicas, config.CountBrokers(x.Meta), v.Values, broker) {
		if c.OfDefault(v) {
			h.add(c.Problem, topic, replicas)
			continue
		}
		x.Add("configs", health.Note, where, c.Problem, c.Remedy)
	}
	if replicas == 1 && len(x.Meta.Brokers) > 1 {
		x.Add("configs", health.Note, where,
			fmt.Sprintf("it has one replica in a cluster of %d brokers: if its broker is lost, so is the topic", len(x.Meta.Brokers)),
			health.Command("chronikctl", "topic", "alter", topic, "--replication-factor", strconv.Itoa(min(3, len(x.Meta.Brokers)))))
	}
}
