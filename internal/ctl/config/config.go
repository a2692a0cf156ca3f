// Package config is chronikctl config: get, set, unset and describe the configs
// of topics and brokers.
//
// It knows no config by name: what there is, its documentation, default, source
// and bounds come from the broker. internal/ctl calls New; the command topic
// alter uses Change.
package config

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/ctl/cli"
)

// New is the command with all those below it.
func New(a *cli.App) *cobra.Command {
	return cli.Parent("config", "Read and change the configs of topics and brokers", get(a), set(a), unset(a), describe(a))
}

// Entity is what has configs.
type Entity struct {
	Kind kmsg.ConfigResourceType
	Name string // a topic, or a broker's id; empty for all brokers
}

// Topics are entities of topics.
func Topics(names []string) []Entity {
	var all []Entity
	for _, n := range names {
		all = append(all, Entity{kmsg.ConfigResourceTypeTopic, n})
	}
	return all
}

// allBrokers is how people name the configs that every broker has.
const allBrokers = "default"

// entity reads "topic NAME", "broker ID" or "broker default".
func entity(kind, name string) (Entity, error) {
	switch kind {
	case "topic":
		return Entity{kmsg.ConfigResourceTypeTopic, name}, nil
	case "broker":
		if name == allBrokers {
			return Entity{kmsg.ConfigResourceTypeBroker, ""}, nil
		}
		if n, err := strconv.ParseInt(name, 10, 32); err != nil || n < 0 {
			return Entity{}, cli.Usage("%q is no broker's id; chronikctl broker list shows them; %s means all brokers", name, allBrokers)
		}
		return Entity{kmsg.ConfigResourceTypeBroker, name}, nil
	}
	return Entity{}, cli.Usage("%q has no configs: write topic NAME, broker ID or broker %s", kind, allBrokers)
}

// String names the entity as people write it.
func (e Entity) String() string {
	if e.Kind == kmsg.ConfigResourceTypeTopic {
		return "topic " + e.Name
	}
	if e.Name == "" {
		return "broker " + allBrokers
	}
	return "broker " + e.Name
}

// command is one below config: its arguments are an entity and what follows.
func command(a *cli.App, use, short string, least int, wanted string, run func(cmd *cobra.Command, e Entity, rest []string) error) *cobra.Command {
	topics := a.Topics(0)
	return &cobra.Command{
		Use: use, Short: short, Args: cli.Args(2+least, -1, "topic NAME or broker ID"+wanted),
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
				return []string{"topic", "broker"}, cobra.ShellCompDirectiveNoFileComp
			case len(args) == 1 && args[0] == "topic":
				return topics(cmd, args, begun)
			case len(args) == 1:
				return []string{allBrokers}, cobra.ShellCompDirectiveNoFileComp
			}
			return keys(a, cmd, args), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// keys suggests the configs that an entity has.
func keys(a *cli.App, cmd *cobra.Command, args []string) []string {
	e, err := entity(args[0], args[1])
	if err != nil || a.Resolve(cmd) != nil {
		return nil
	}
	found, err := ask(cmd.Context(), a, e)
	if err != nil {
		return nil
	}
	var names []string
	for _, c := range found {
		name := c.Key
		if strings.HasPrefix(cmd.Use, "set") {
			name += "="
		}
		names = append(names, name)
	}
	return names
}
