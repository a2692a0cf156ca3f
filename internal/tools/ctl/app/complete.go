package app

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// completeTime bounds how long a shell waits after the tab key.
const completeTime = 2 * time.Second

// Completion suggests values for an argument or a flag.
type Completion = func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective)

// Topics suggests the broker's topics for the first most arguments; 0 means all arguments.
func (a *App) Topics(most int) Completion {
	return a.Names(most, func(ctx context.Context, adm *kadm.Client) ([]string, error) {
		topics, err := adm.ListTopics(ctx)
		return slices.Sorted(maps.Keys(topics)), err
	})
}

// Groups suggests the broker's groups.
func (a *App) Groups(most int) Completion {
	return a.Names(most, func(ctx context.Context, adm *kadm.Client) ([]string, error) {
		groups, err := adm.ListGroups(ctx)
		return groups.Groups(), err
	})
}

// Brokers suggests the ids of the brokers.
func (a *App) Brokers(most int) Completion {
	return a.Names(most, func(ctx context.Context, adm *kadm.Client) ([]string, error) {
		brokers, err := adm.ListBrokers(ctx)
		var ids []string
		for _, id := range brokers.NodeIDs() {
			ids = append(ids, strconv.Itoa(int(id)))
		}
		return ids, err
	})
}

// Names suggests what list returns for the first most arguments; 0 means all. It suggests nothing
// after an error, because a shell cannot show it.
func (a *App) Names(most int, list func(context.Context, *kadm.Client) ([]string, error)) Completion {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most || a.Resolve(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		adm, err := a.Connect(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer adm.Close()
		found, err := list(ctx, adm)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(found, func(n string) bool { return slices.Contains(args, n) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// OneOf suggests fixed values.
func OneOf(values ...string) Completion {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFlag makes an existing flag suggest values.
func CompleteFlag(c *cobra.Command, flag string, f Completion) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the command lacks the flag: a programming error
	}
}
