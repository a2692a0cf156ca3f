package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/view"
	"github.com/chronik-io/chronik/pkg/durability"
)

// facts is what a topic's guarantee depends on.
type facts struct {
	Topic    string              `json:"topic"`
	Profile  string              `json:"profile"`
	Source   string              `json:"profileSource"`
	Replicas int                 `json:"replicas"`
	MinISR   int                 `json:"minInsyncReplicas"`
	Promises []promiseJSON       `json:"promises"`
	Waits    *view.CommitWaits   `json:"waits"`  // measured under the profile; nil if unknown
	Groups   []view.GroupCommits `json:"groups"` // measured in the log directories
}

func explain(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "explain TOPIC", Short: "Explain what an acknowledgement guarantees in a topic", Args: app.Args(1, 1, "one topic"),
		ValidArgsFunction: a.Topics(1),
		Example:           "  chronikctl profile explain orders",
		Long: "explain says what an acknowledgement guarantees for a topic with its current profile, replicas and\n" +
			"min.insync.replicas, for each value of acks. If chronik's admin port answers, it adds measurements: how many records\n" +
			"shared a sync, and how long syncs took.",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, names []string) error {
			f, err := gather(ctx, adm, names[0])
			if err != nil {
				return err
			}
			k, err := askProfiles(ctx, a)
			if err != nil {
				return err
			}
			p, err := k.lookup(f.Profile)
			if err != nil {
				return fmt.Errorf("explain %s: %w", f.Topic, err)
			}
			return f.print(a, &k, p.Durability())
		}),
	}
}

// gather returns the topic's facts.
func gather(ctx context.Context, adm *kadm.Client, topic string) (*facts, error) {
	topics, err := adm.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return nil, app.Refused("explain "+topic, app.BrokerError(err), "")
	}
	t, ok := topics[topic]
	if !ok || t.Err != nil {
		if t.Err == nil || errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
			t.Err = app.NoTopic(ctx, adm, topic)
		}
		return nil, app.Refused("explain "+topic, t.Err, "")
	}
	configs, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, app.Refused("explain "+topic, app.BrokerError(err), "")
	}
	f := &facts{Topic: topic, Replicas: t.Partitions.NumReplicas(), MinISR: 1, Promises: []promiseJSON{}, Groups: []view.GroupCommits{}}
	for _, r := range configs {
		for _, c := range r.Configs {
			switch c.Key {
			case "chronik.durability.profile":
				f.Profile, f.Source = c.MaybeValue(), sourceOf(c.Source)
			case "min.insync.replicas":
				if n, err := strconv.Atoi(c.MaybeValue()); err == nil {
					f.MinISR = n
				}
			}
		}
	}
	if f.Profile == "" {
		return nil, fmt.Errorf(
			"explain %s: this broker is not chronik: it has no chronik.durability.profile. Kafka acknowledges records that the operating system has; the profile os guarantees the same: chronikctl profile show os",
			topic)
	}
	return f, nil
}

func sourceOf(s kmsg.ConfigSource) string {
	switch s {
	case kmsg.ConfigSourceDynamicTopicConfig:
		return "set on the topic"
	case kmsg.ConfigSourceDefaultConfig:
		return "the default"
	}
	return "the broker's default"
}

// print prints the guarantees.
func (f *facts) print(a *app.App, k *profileList, p durability.Profile) error {
	head := []string{fmt.Sprintf("topic %s: profile %s (%s), %s, min.insync.replicas %d", f.Topic, f.Profile, f.Source,
		text.Count(f.Replicas, "replica"), f.MinISR), "", ackText(p), syncText(p)}
	for _, n := range []int16{-1, 1, 0} {
		s := durability.Setting{Acks: n, Replicas: f.Replicas, MinISR: f.MinISR}
		head = append(head, "", fmt.Sprintf("acks=%s: %s", acks(n), f.who(n)))
		for _, failure := range durability.Failures() {
			if failure == durability.AllButOneLost && f.Replicas == 1 {
				continue
			}
			promise := p.Promise(s, failure)
			f.Promises = append(f.Promises, promiseOf(promise))
			if n != 0 {
				head = append(head, fmt.Sprintf("  After a %v %v.", failure, promise))
			}
		}
	}
	head = append(head, "", "Seen since the broker's start:")
	return a.Print(f, &output.Table{Title: strings.Join(append(head, f.seen(k)...), "\n")})
}

// who says which replicas must have a record before it is acknowledged.
func (f *facts) who(acks int16) string {
	switch {
	case acks == 0:
		return "the producer receives no acknowledgement, so nothing is guaranteed."
	case f.Replicas == 1:
		return "the producer receives its acknowledgement when the one replica has the record."
	case acks == 1:
		return "the producer receives its acknowledgement when the leader has the record."
	}
	return fmt.Sprintf("the producer receives its acknowledgement when all in-sync replicas have the record, at least %d of %d.",
		min(f.MinISR, f.Replicas), f.Replicas)
}

// seen returns the measurements of the admin port.
func (f *facts) seen(k *profileList) []string {
	if k.seen == nil {
		return []string{"  unknown: no admin port of chronik answered; give it with --admin"}
	}
	var lines []string
	for _, x := range k.seen.List {
		if x.Name == f.Profile && x.Waits != nil {
			f.Waits = x.Waits
			lines = append(lines, fmt.Sprintf("  %s under this profile waited %s on average for their acknowledgement.",
				text.Count(x.Waits.Count, "append"), ms(x.Waits.MeanMs)))
		}
	}
	for _, g := range k.seen.Groups {
		f.Groups = append(f.Groups, g)
		lines = append(lines, fmt.Sprintf("  In %s one fdatasync covered %.1f records (%s) on average and took %s; there were %d.",
			g.Dir, g.MeanRecords, text.Bytes(int64(g.MeanBytes)), ms(g.MeanSyncMs), g.Count))
	}
	if lines == nil {
		return []string{"  nothing has been written yet"}
	}
	return lines
}

func ms(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) + " ms" }
