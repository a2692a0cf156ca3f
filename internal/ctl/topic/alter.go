package topic

import (
	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/ctl/config"
	"github.com/chronik-io/chronik/internal/ctl/parse"
)

func alter(a *app.App) *cobra.Command {
	var set, unset []string
	var dryRun bool
	c := &cobra.Command{
		Use: "alter NAME...", Short: "Change configs of topics", Args: app.Args(1, -1, "at least one topic"),
		ValidArgsFunction: a.Topics(0),
		Long:              "alter sets configs of topics, or resets them to their defaults, atomically per topic. config set does the same for one topic or broker.",
		Example:           "  chronikctl topic alter orders --config retention.ms=1d --unset segment.bytes",
		RunE: func(cmd *cobra.Command, names []string) error {
			values, err := parse.Configs(set)
			if err != nil {
				return app.Usage("--config %w", err)
			}
			if len(set)+len(unset) == 0 {
				return app.Usage("nothing to change: give --config name=value or --unset name")
			}
			return config.Change(cmd.Context(), a, config.Topics(names), values, unset, dryRun)
		},
	}
	c.Flags().StringArrayVarP(&set, "config", "c", nil, "config name=value to set; repeatable")
	c.Flags().StringArrayVar(&unset, "unset", nil, "config to reset to its default; repeatable")
	c.Flags().BoolVar(&dryRun, "dry-run", false, dryRunDoc)
	app.CompleteFlag(c, "config", config.TopicKeys(a, "="))
	app.CompleteFlag(c, "unset", config.TopicKeys(a, ""))
	return c
}
