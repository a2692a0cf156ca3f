package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func tree() *cobra.Command {
	root := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, Args: NoArgs,
		RunE: func(*cobra.Command, []string) error { return nil }}
	sub := &cobra.Command{Use: "topic", Args: NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
	root.PersistentFlags().Int("partitions", 1, "")
	sub.Flags().Duration("wait", 0, "")
	sub.Flags().Bool("all", false, "")
	sub.Flags().Float64("rate", 0, "")
	sub.Flags().StringToString("config", nil, "")
	sub.Flags().StringP("name", "n", "", "")
	root.AddCommand(sub, &cobra.Command{Use: "secret", Hidden: true, RunE: func(*cobra.Command, []string) error { return nil }})
	Instead(root, map[string]string{"status": "topic shows it", "--server": "give --wait"})
	Instead(sub, map[string]string{"--tail": "give --name", "-w": "--wait waits"})
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text, known := FlagError(cmd, err)
		if known {
			text += " (known)"
		}
		return errors.New(text)
	})
	RejectUnknownHelp(root, NoArgs)
	return root
}

// Each error says what to write instead.
func TestTexts(t *testing.T) {
	for line, want := range map[string]string{
		"--partition 3":           "unknown flag: --partition; did you mean --partitions?",
		"topic --partiton 3":      "unknown flag: --partiton; did you mean --partitions?",
		"topic --zebra":           "unknown flag: --zebra; x topic --help lists the flags",
		"topic -z":                "unknown shorthand flag: 'z' in -z; x topic --help lists the flags (known)",
		"topic -w":                "unknown shorthand flag: 'w' in -w; --wait waits",
		"topic --wait soon":       `invalid argument "soon" for "--wait" flag: must be a duration like "30s" or "5m" (known)`,
		"topic --partitions many": `invalid argument "many" for "--partitions" flag: must be an integer (known)`,
		"topic --rate much":       `invalid argument "much" for "--rate" flag: must be a number (known)`,
		"topic --all=perhaps":     `invalid argument "perhaps" for "--all" flag: must be true or false (known)`,
		"topic --config a": `invalid argument "a" for "--config" flag: ` +
			`a must be formatted as key=value (known)`,
		"topic --name":                "flag needs an argument: --name; x topic --help lists the flags (known)",
		"status":                      `x has no command "status"; topic shows it`,
		"topic --tail 3":              "unknown flag: --tail; give --name",
		"topic --server 3":            "unknown flag: --server; give --wait",
		"status --of x":               `x has no command "status"; topic shows it`,
		"topc x -z":                   `x has no command "topc"; did you mean topic?`,
		"topc":                        `x has no command "topc"; did you mean topic?`,
		"secre":                       `x has no command "secre"; x --help lists the commands`,
		"topic a":                     `x topic takes no argument "a"; see x topic --help`,
		"help topc":                   `x has no command "topc"; did you mean topic?`,
		"help topic a":                `x topic takes no argument "a"; see x topic --help`,
		"topic --wait 3s --all":       "",
		"topic --partitions 99999999": "",
	} {
		root := tree()
		root.SetArgs(strings.Fields(line))
		err := root.Execute()
		if got := errorText(err); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
