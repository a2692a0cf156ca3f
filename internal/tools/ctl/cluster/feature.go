package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// The values of UpgradeType.
const (
	upgrade   = 1
	downgrade = 2
)

func featureCommand(a *app.App) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "feature NAME=LEVEL", Short: "Set the level of a feature", Args: app.Args(1, 1, "one feature with its level"),
		Long: "feature sets the level of transaction.version or share.version; cluster describe shows the levels. Raise them after an\n" +
			"upgrade, when all brokers run the new version. A lower level takes something away from clients, so feature asks:\n" +
			"with share.version=0 there are no share groups until it is 1 again.",
		Example: "  chronikctl cluster feature share.version=1 --dry-run\n  chronikctl cluster feature share.version=1",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, text, _ := strings.Cut(args[0], "=")
			level, err := strconv.ParseInt(text, 10, 16)
			if name == "" || err != nil || level < 0 {
				return app.Usage("%q is not a feature with its level; write, for example, share.version=1", args[0])
			}
			return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, _ []string) error {
				return setFeature(ctx, a, adm, cl, name, int16(level), dryRun)
			})(cmd, args)
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only check whether the level can be set")
	return c
}

func setFeature(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, name string, level int16, dryRun bool) error {
	what := fmt.Sprintf("set %s to %d", name, level)
	levels, err := features(ctx, adm)
	if err != nil {
		return app.Refused(what, app.BrokerError(err), "")
	}
	req := kmsg.NewPtrUpdateFeaturesRequest()
	f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	f.Feature, f.MaxVersionLevel, f.UpgradeType = name, level, upgrade
	if level < levels[name] {
		f.UpgradeType, f.AllowDowngrade = downgrade, true
		if !dryRun {
			if err := a.Confirm(what, fmt.Sprintf("It is at %d now.", levels[name]), nil); err != nil {
				return err
			}
		}
	}
	req.ValidateOnly, req.FeatureUpdates = dryRun, append(req.FeatureUpdates, f)
	resp, err := req.RequestWith(ctx, cl)
	message := ""
	if err == nil {
		err, message = kerr.ErrorForCode(resp.ErrorCode), app.OrEmpty(resp.ErrorMessage)
	}
	if err != nil {
		return app.Refused(what, app.Needs(app.BrokerError(err), app.OnCluster("alter")), message)
	}
	var out app.Outcomes
	if dryRun {
		out.Done(name, "would be set to %d", level)
	} else {
		out.Done(name, "set to %d", level)
	}
	return a.PrintOutcomes(&out)
}

// features returns the finalized levels of features.
func features(ctx context.Context, adm *kadm.Client) (map[string]int16, error) {
	versions, err := adm.ApiVersions(ctx)
	if err != nil {
		return nil, err
	}
	levels := map[string]int16{}
	versions.Each(func(v kadm.BrokerApiVersions) {
		if raw := v.Raw(); v.Err == nil && raw != nil {
			for _, f := range raw.FinalizedFeatures {
				levels[f.Name] = f.MaxVersionLevel
			}
		}
	})
	return levels, nil
}
