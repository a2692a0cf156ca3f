package topic

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// listed is a topic in the answer of list.
type listed struct {
	Topic       string `json:"topic"`
	Partitions  int    `json:"partitions"`
	Replication int    `json:"replicationFactor"`
	ID          string `json:"id,omitempty"`
	Internal    bool   `json:"internal"`
	Size        *int64 `json:"sizeBytes"`         // of all replicas; nil if unknown
	Records     int64  `json:"records"`           // offsets between start and end: an upper bound
	Remote      bool   `json:"remoteStorage"`     // remote.storage.enable: old records may be in the object store only
	Profile     string `json:"profile,omitempty"` // empty for a broker without profiles
}

// listFlags holds the flags of list.
type listFlags struct {
	internal, names, regex bool
}

func list(a *app.App) *cobra.Command {
	var l listFlags
	c := &cobra.Command{
		Use: "list [NAME...]", Short: "List topics; with -o wide also their sizes, records and profiles", Args: app.Args(0, -1, "topics"),
		ValidArgsFunction: a.Topics(0),
		Example:           "  chronikctl topic list -o wide\n  chronikctl topic list --regex 'orders-.*'",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, names []string) error {
			topics, missing, err := l.choose(ctx, adm, names)
			if err != nil {
				return err
			}
			var failed []error
			for _, name := range names {
				if e, ok := missing[name]; ok {
					failed = append(failed, app.Refused("list "+name, e, ""))
				}
			}
			if len(topics) > 0 || len(names) == 0 {
				failed = append([]error{l.show(ctx, a, adm, topics)}, failed...)
			}
			return errors.Join(failed...)
		}),
	}
	c.Flags().BoolVar(&l.internal, "internal", false, "include internal topics")
	c.Flags().BoolVar(&l.names, "names", false, "print only the names, one per line, for scripts")
	c.Flags().BoolVarP(&l.regex, "regex", "r", false, app.RegexHelp)
	return a.Watched(c)
}

// choose returns the topics with these names, or all without names.
func (l *listFlags) choose(ctx context.Context, adm *kadm.Client, names []string) (
	found []kadm.TopicDetail, missing map[string]error, err error,
) {
	if len(names) > 0 {
		return app.FindTopics(ctx, adm, names, l.regex)
	}
	ask := adm.ListTopics
	if l.internal {
		ask = adm.ListTopicsWithInternal
	}
	topics, err := ask(ctx)
	if err != nil {
		return nil, nil, app.Refused("list topics", app.BrokerError(err), "")
	}
	return topics.Sorted(), nil, nil
}

func (l *listFlags) show(ctx context.Context, a *app.App, adm *kadm.Client, topics []kadm.TopicDetail) error {
	if l.names {
		for _, t := range topics {
			if _, err := fmt.Fprintln(a.Out, t.Topic); err != nil {
				return fmt.Errorf("standard output: %w", err)
			}
		}
		return nil
	}
	var f facts
	if as := a.Format(); as != output.Text && as != output.Name && len(topics) > 0 { // the short table needs no more
		var err error
		if f, err = ask(ctx, adm, topics); err != nil {
			return err
		}
	}
	table := &output.Table{Columns: []string{"TOPIC", "PARTITIONS#", "REPLICAS#", "+SIZE#", "+RECORDS#", "+PROFILE", "+TIERED", "+ID",
		"+INTERNAL"}, Empty: "no topics"}
	all := []listed{}
	for _, t := range topics {
		d := f.describe(t)
		x := listed{Topic: t.Topic, Partitions: len(t.Partitions), Replication: d.Replication, ID: d.ID, Internal: t.IsInternal,
			Size: d.Size, Records: d.Records, Profile: d.Profile, Remote: d.Remote}
		all = append(all, x)
		table.Add(x.Topic, x.Partitions, x.Replication, size(x.Size), d.offsets(), x.Profile, x.Remote, x.ID, x.Internal)
	}
	return a.Print(all, table)
}
