// Package config implements chronikctl config: it gets, sets, unsets and describes the configs of
// topics, brokers, groups, loggers and subscriptions to metrics of clients.
//
// The broker provides names, documentation, defaults, sources and bounds. The package does not know
// configs by name, except those that decide which records are kept, and those that are warned
// about. All changes of chronikctl pass through Change, also those of topic alter. A change of an
// entity happens as a whole or not at all. If it makes records fall out of logs at once, it needs a
// confirmation.
package config

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// New returns the command config.
func New(a *app.App) *cobra.Command {
	return app.Parent("config", "Read and change the configs of topics, brokers, groups, loggers and client metrics",
		list(a), get(a), set(a), unset(a), describe(a))
}

// Entity is a topic, broker, group, logger or subscription to metrics of clients with configs.
type Entity struct {
	Kind kmsg.ConfigResourceType
	Name string // a topic, a group, a subscription, or a broker's id; empty for all brokers
}

// Topics returns the entities of topics.
func Topics(names []string) []Entity {
	var all []Entity
	for _, n := range names {
		all = append(all, Entity{kmsg.ConfigResourceTypeTopic, n})
	}
	return all
}

// OneBroker returns the entity of a broker.
func OneBroker(id int32) Entity {
	return Entity{kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id))}
}

// allBrokers is the name of the configs that apply to all brokers.
const allBrokers = "default"

// Kinds of entities, as written on the command line.
const (
	topicKind  = "topic"
	brokerKind = "broker"
	groupKind  = "group"
	loggerKind = "logger"
	clientKind = "client-metrics"
)

// kinds returns the possible first words of an entity.
func kinds() []string { return []string{topicKind, brokerKind, groupKind, loggerKind, clientKind} }

// entity parses "topic NAME", "broker ID", "broker default", "group NAME", "logger ID" or
// "client-metrics NAME".
func entity(kind, name string) (Entity, error) {
	switch kind {
	case topicKind:
		return Entity{kmsg.ConfigResourceTypeTopic, name}, nil
	case groupKind:
		return Entity{kmsg.ConfigResourceTypeGroupConfig, name}, nil
	case clientKind:
		return Entity{kmsg.ConfigResourceTypeClientMetrics, name}, nil
	case brokerKind, loggerKind:
		if kind == brokerKind && name == allBrokers {
			return Entity{kmsg.ConfigResourceTypeBroker, ""}, nil
		}
		if n, err := strconv.ParseInt(name, 10, 32); err != nil || n < 0 {
			return Entity{}, app.Usage("%q is not a broker's id; chronikctl broker list shows the ids; broker %s means all brokers", name,
				allBrokers)
		}
		if kind == loggerKind {
			return Entity{kmsg.ConfigResourceTypeBrokerLogger, name}, nil
		}
		return Entity{kmsg.ConfigResourceTypeBroker, name}, nil
	}
	return Entity{}, noEntity(kind)
}

func noEntity(kind string) error {
	if strings.Contains(kind, "=") {
		return app.Usage("KIND and NAME are missing: chronikctl config set topic NAME %s, or broker ID or broker %s instead of topic NAME",
			kind, allBrokers)
	}
	return app.Usage(
		"%q is not a kind: write topic %s if it is a topic, else broker ID, broker %s for all brokers, group NAME, logger ID for a "+
			"broker's log levels, or client-metrics NAME for a subscription to metrics of clients", kind, kind, allBrokers)
}

// String names the entity as on the command line.
func (e Entity) String() string {
	switch e.Kind {
	case kmsg.ConfigResourceTypeTopic:
		return topicKind + " " + e.Name
	case kmsg.ConfigResourceTypeGroupConfig:
		return groupKind + " " + e.Name
	case kmsg.ConfigResourceTypeClientMetrics:
		return clientKind + " " + e.Name
	case kmsg.ConfigResourceTypeBrokerLogger:
		return loggerKind + " " + e.Name
	}
	if e.Name == "" {
		return brokerKind + " " + allBrokers
	}
	return brokerKind + " " + e.Name
}

// right returns the right on an entity that an operation needs: all but topics and groups belong to
// the cluster.
func (e Entity) right(operation string) app.Right {
	switch e.Kind {
	case kmsg.ConfigResourceTypeTopic:
		return app.OnTopic(operation, e.Name)
	case kmsg.ConfigResourceTypeGroupConfig:
		return app.OnGroup(operation, e.Name)
	}
	return app.OnCluster(operation)
}

// command returns a subcommand of config. Its arguments are an entity and the rest.
func command(a *app.App, use, short string, least int, wanted string,
	run func(cmd *cobra.Command, e Entity, rest []string) error) *cobra.Command {
	topics, groups, brokers := a.Topics(0), a.Groups(0), a.Brokers(0)
	subscriptions := a.Names(0, func(ctx context.Context, adm *kadm.Client) ([]string, error) {
		found, err := adm.ListConfigResources(ctx, kadm.ConfigResourceClientMetrics)
		return found.Names(), err
	})
	enough := app.Args(2+least, -1, "an entity (topic NAME, broker ID, group NAME, logger ID, client-metrics NAME)"+wanted)
	return &cobra.Command{
		Use: use, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !slices.Contains(kinds(), args[0]) {
				return noEntity(args[0])
			}
			return enough(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := entity(args[0], args[1])
			if err != nil {
				return err
			}
			return run(cmd, e, args[2:])
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			switch {
			case len(args) == 0:
				return kinds(), cobra.ShellCompDirectiveNoFileComp
			case len(args) == 1 && args[0] == topicKind:
				return topics(cmd, args, begun)
			case len(args) == 1 && args[0] == groupKind:
				return groups(cmd, args, begun)
			case len(args) == 1 && args[0] == clientKind:
				return subscriptions(cmd, args, begun)
			case len(args) == 1:
				ids, directive := brokers(cmd, args, begun)
				if args[0] == brokerKind {
					ids = append(ids, allBrokers)
				}
				return ids, directive
			}
			after := ""
			if strings.HasPrefix(cmd.Use, "set") {
				after = "="
			}
			return keys(a, cmd, args[0], args[1], after), cobra.ShellCompDirectiveNoFileComp | noSpace(after)
		},
	}
}

// TopicKeys suggests, for a flag, the configs of the first topic on the command line, each followed
// by after.
func TopicKeys(a *app.App, after string) app.Completion {
	return func(cmd *cobra.Command, topics []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(topics) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return keys(a, cmd, topicKind, topics[0], after), cobra.ShellCompDirectiveNoFileComp | noSpace(after)
	}
}

// noSpace keeps the cursor after the suggestion if a value follows.
func noSpace(after string) cobra.ShellCompDirective {
	if after == "" {
		return 0
	}
	return cobra.ShellCompDirectiveNoSpace
}

// keys suggests the configs of an entity.
func keys(a *app.App, cmd *cobra.Command, kind, name, after string) []string {
	e, err := entity(kind, name)
	if err != nil || a.Resolve(cmd) != nil {
		return nil
	}
	found, err := fetch(cmd.Context(), a, e)
	if err != nil {
		return nil
	}
	var names []string
	for _, c := range found {
		names = append(names, c.Key+after)
	}
	return names
}
