package ctl

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (a *app) topic() *cobra.Command {
	c := &cobra.Command{
		Use: "topic", Short: "Create, list, describe and delete topics",
		Args: args(0, 0, "one of create, list, describe, delete"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.topicCreate(), a.topicList(), a.topicDescribe(), a.topicDelete())
	return c
}

func (a *app) topicCreate() *cobra.Command {
	var (
		partitions  int32
		replication int16
		configs     []string
		ifNotExists bool
	)
	c := &cobra.Command{
		Use: "create NAME...", Short: "Create topics", Args: args(1, -1, "at least one topic"),
		RunE: func(cmd *cobra.Command, names []string) error {
			with := make(map[string]*string, len(configs))
			for _, kv := range configs {
				k, v, ok := strings.Cut(kv, "=")
				if !ok || k == "" {
					return usage("--config %q is not name=value", kv)
				}
				with[k] = &v
			}
			adm, err := a.admin(cmd.Context())
			if err != nil {
				return err
			}
			defer adm.Close()
			var failed []error
			for _, name := range names {
				r, err := adm.CreateTopic(cmd.Context(), partitions, replication, with, name)
				if errors.Is(err, kerr.TopicAlreadyExists) && ifNotExists {
					fmt.Fprintf(a.Out, "%s exists\n", name)
					continue
				}
				if err != nil {
					failed = append(failed, fmt.Errorf("create %s: %w", name, explained(err, r.ErrMessage)))
					continue
				}
				fmt.Fprintf(a.Out, "%s created\n", name)
			}
			return errors.Join(failed...)
		},
	}
	f := c.Flags()
	f.Int32VarP(&partitions, "partitions", "p", -1, "number of partitions; -1 is the broker's default")
	f.Int16VarP(&replication, "replication-factor", "r", -1, "copies of each partition; -1 is the broker's default")
	f.StringArrayVarP(&configs, "config", "c", nil, "topic config name=value; may be repeated")
	f.BoolVar(&ifNotExists, "if-not-exists", false, "a topic that exists is no error")
	return c
}

// explained adds what the broker said beyond the error's name.
func explained(err error, message string) error {
	if message == "" || strings.Contains(err.Error(), message) {
		return err
	}
	return fmt.Errorf("%w: %s", err, message)
}

func (a *app) topicList() *cobra.Command {
	var internal bool
	c := &cobra.Command{
		Use: "list", Short: "List topics, one name a line", Args: args(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			adm, err := a.admin(cmd.Context())
			if err != nil {
				return err
			}
			defer adm.Close()
			list := adm.ListTopics
			if internal {
				list = adm.ListTopicsWithInternal
			}
			topics, err := list(cmd.Context())
			if err != nil {
				return fmt.Errorf("list topics: %w", err)
			}
			for _, name := range slices.Sorted(maps.Keys(topics)) {
				fmt.Fprintln(a.Out, name)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&internal, "internal", false, "internal topics too")
	return c
}

func (a *app) topicDescribe() *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME...", Short: "Show partitions, offsets and configs that differ from the default",
		Args: args(1, -1, "at least one topic"),
		RunE: func(cmd *cobra.Command, names []string) error {
			adm, err := a.admin(cmd.Context())
			if err != nil {
				return err
			}
			defer adm.Close()
			return a.describe(cmd.Context(), adm, names)
		},
	}
}

func (a *app) describe(ctx context.Context, adm *kadm.Client, names []string) error {
	topics, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	var failed []error
	var found []string
	for _, name := range names {
		switch t, ok := topics[name]; {
		case !ok:
			failed = append(failed, fmt.Errorf("describe %s: %w", name, kerr.UnknownTopicOrPartition))
		case t.Err != nil:
			failed = append(failed, fmt.Errorf("describe %s: %w", name, t.Err))
		default:
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return errors.Join(failed...)
	}
	starts, err := adm.ListStartOffsets(ctx, found...)
	if err != nil {
		return fmt.Errorf("start offsets: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, found...)
	if err != nil {
		return fmt.Errorf("end offsets: %w", err)
	}
	configs, err := adm.DescribeTopicConfigs(ctx, found...)
	if err != nil {
		return fmt.Errorf("configs: %w", err)
	}
	for _, name := range found {
		a.printTopic(topics[name], starts, ends, overrides(configs, name))
	}
	return errors.Join(failed...)
}

// overrides are the configs that somebody set on the topic itself.
func overrides(all kadm.ResourceConfigs, name string) []string {
	var set []string
	for _, r := range all {
		if r.Name != name {
			continue
		}
		if r.Err != nil {
			set = append(set, fmt.Sprintf("(not known: %v)", r.Err))
		}
		for _, c := range r.Configs {
			if c.Source.String() == "DYNAMIC_TOPIC_CONFIG" {
				set = append(set, c.Key+"="+c.MaybeValue())
			}
		}
	}
	slices.Sort(set)
	return set
}

func (a *app) printTopic(t kadm.TopicDetail, starts, ends kadm.ListedOffsets, configs []string) {
	fmt.Fprintf(a.Out, "topic %s  id %s  partitions %d  replication factor %d\n", t.Topic, base64.RawURLEncoding.EncodeToString(t.ID[:]), len(t.Partitions), t.Partitions.NumReplicas())
	for _, c := range configs {
		fmt.Fprintf(a.Out, "config %s\n", c)
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "partition\tleader\tepoch\treplicas\tin sync\tstart\tend")
	for _, p := range t.Partitions.Sorted() {
		fmt.Fprintf(w, "%d\t%d\t%d\t%s\t%s\t%s\t%s\n", p.Partition, p.Leader, p.LeaderEpoch, numbers(p.Replicas), numbers(p.ISR),
			offset(starts, t.Topic, p.Partition), offset(ends, t.Topic, p.Partition))
	}
	_ = w.Flush() // an error of the pipe behind it is met on the next write
}

func numbers(ids []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]")
}

func offset(l kadm.ListedOffsets, topic string, partition int32) string {
	o, ok := l.Lookup(topic, partition)
	if !ok {
		return "?"
	}
	if o.Err != nil {
		return o.Err.Error()
	}
	return fmt.Sprint(o.Offset)
}

func (a *app) topicDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME...", Short: "Delete topics and their records", Args: args(1, -1, "at least one topic"),
		RunE: func(cmd *cobra.Command, names []string) error {
			adm, err := a.admin(cmd.Context())
			if err != nil {
				return err
			}
			defer adm.Close()
			deleted, err := adm.DeleteTopics(cmd.Context(), names...)
			if err != nil {
				return fmt.Errorf("delete: %w", err)
			}
			var failed []error
			for _, name := range names {
				if r := deleted[name]; r.Err != nil {
					failed = append(failed, fmt.Errorf("delete %s: %w", name, explained(r.Err, r.ErrMessage)))
					continue
				}
				fmt.Fprintf(a.Out, "%s deleted\n", name)
			}
			return errors.Join(failed...)
		},
	}
}
