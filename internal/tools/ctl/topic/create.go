package topic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/config"
)

// createFlags holds the flags of create.
type createFlags struct {
	partitions  int32
	replication int16
	configs     []string
	ifNotExists bool
	dryRun      bool
}

func create(a *app.App) *cobra.Command {
	var w createFlags
	c := &cobra.Command{
		Use: "create NAME...", Short: "Create topics", Args: app.Args(1, -1, "at least one topic"),
		ValidArgsFunction: cobra.NoFileCompletions,
		Long: "create creates topics, each with the same number of partitions, replicas and configs. It asks if retention.ms has no\n" +
			"unit and was probably meant in days or seconds, as config set does; --yes confirms.",
		Example: "  chronikctl topic create payments --partitions 12 --config retention.ms=7d\n" +
			"  chronikctl topic create clicks --config chronik.durability.profile=interval",
		RunE: func(cmd *cobra.Command, names []string) error {
			configs, err := config.Parse(w.configs)
			if err != nil {
				return app.Usage("--config %w", err)
			}
			for _, name := range names[1:] {
				if _, err := strconv.Atoi(name); err == nil {
					return app.Usage("%s: each argument is the name of a topic; with --partitions %s, %s gets so many partitions, "+
						"and a topic whose name is a number has to be the first argument", name, name, names[0])
				}
			}
			return a.Admin(func(ctx context.Context, adm *kadm.Client, names []string) error {
				return w.run(ctx, a, adm, names, configs)
			})(cmd, names)
		},
	}
	f := c.Flags()
	cli.AtLeast(int32(1)).Or(-1, "the broker's default").Flag(f, &w.partitions, "partitions", "p", -1, "number of partitions")
	cli.Between(1, int16(math.MaxInt16)).Or(-1, "the broker's default").
		Flag(f, &w.replication, "replication-factor", "r", -1, "copies of each partition")
	f.StringArrayVarP(&w.configs, "config", "c", nil, "topic config name=value; repeatable")
	f.BoolVar(&w.ifNotExists, "if-not-exists", false, "succeed if the topic already exists")
	f.BoolVar(&w.dryRun, "dry-run", false, dryRunDoc)
	const factor = "--replication-factor sets the copies of each partition"
	cli.Instead(c, map[string]string{"--replicas": factor, "--replication": factor})
	return c
}

func (w *createFlags) run(ctx context.Context, a *app.App, adm *kadm.Client, names []string, configs map[string]string) error {
	with := make(map[string]*string, len(configs))
	for name, value := range configs {
		with[name] = &value
	}
	send, done := adm.CreateTopics, "created"
	if w.dryRun {
		send, done = adm.ValidateCreateTopics, "would be created"
	}
	if config.AsksNew(a, w.configs, w.dryRun) {
		if err := config.AskNew(a, w.valid(ctx, adm, names, with), w.configs, w.dryRun); err != nil {
			return err
		}
	}
	var out app.Outcomes
	var created []string
	for _, name := range names {
		answers, err := send(ctx, w.partitions, w.replication, with, name)
		r := answers[name]
		if err == nil {
			err = r.Err
		}
		switch {
		case errors.Is(err, kerr.TopicAlreadyExists) && w.ifNotExists:
			out.Done(name, "exists")
		case errors.Is(err, kerr.InvalidConfig) && strings.HasPrefix(r.ErrMessage, "Unknown ") && config.Unknown(ctx, adm, configs) != nil:
			out.Failed(name, fmt.Errorf("create %s: %w", name, config.Unknown(ctx, adm, configs)))
		case app.IsUnknown(err) && !w.dryRun:
			remedy := "it may still be created: chronikctl topic describe " + name + " shows it if it is; otherwise try again"
			if r.Err != nil { // a broker answered that the metadata did not
				remedy += ", or see which brokers are missing: chronikctl cluster health"
			}
			out.Failed(name, app.RefusedFor("create "+name, app.BrokerError(err), r.ErrMessage, remedy))
		case err != nil:
			out.Refused(name, "create "+name, app.Needs(app.BrokerError(err), app.OnTopic("create", name)), r.ErrMessage)
		default:
			out.Done(name, "%s", done)
			if !w.dryRun {
				created = append(created, name)
			}
		}
	}
	config.Warn(ctx, a, adm, created, configs)
	return a.PrintOutcomes(&out)
}

// valid returns the topics that the broker would create, as far as it answers. It refuses the
// others in any case: a question about them would be pointless.
func (w *createFlags) valid(ctx context.Context, adm *kadm.Client, names []string, configs map[string]*string) (valid []string) {
	for _, name := range names {
		answers, err := adm.ValidateCreateTopics(ctx, w.partitions, w.replication, configs, name)
		if refused := answers[name].Err; err == nil && refused != nil && !kerr.IsRetriable(refused) {
			continue
		}
		valid = append(valid, name)
	}
	return valid
}
