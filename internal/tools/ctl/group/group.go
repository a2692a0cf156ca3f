// Package group implements chronikctl group: list, describe, reset, export, delete, delete-offsets,
// and for single records of share groups peek, release and reject (records.go).
//
// It treats groups of the classic and of the consumer protocol (KIP-848) alike, and as far as they
// have the same, share groups (KIP-932; share.go). reset and delete refuse a group that has
// members. No command changes or deletes offsets without a confirmation. Each command is in a file
// of its name; state.go fetches the data that they share.
//
// It needs only Kafka's protocol, except for single records, which chronik's tagged fields name
// (view.ShareTag). If there is an admin port, describe also shows what the leaders know of a share
// group.
package group

import (
	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// New returns the command group.
func New(a *app.App) *cobra.Command {
	c := app.Parent("group", "List, describe, reset, export and delete groups; records of share groups",
		list(a), describe(a), reset(a), export(a), remove(a), deleteOffsets(a), peek(a), release(a), reject(a))
	cli.Instead(c, map[string]string{
		"lag":           "group list shows each group's lag, group describe the lag of each partition",
		"members":       "group describe shows the members",
		"list-members":  "group describe shows the members",
		"--to-datetime": "--to-time sets the offsets at a time",
		"offsets":       "group describe shows the offsets",
		"list-offsets":  "group describe shows the offsets",
		"seek":          "group reset sets offsets",
		"reset-offsets": "group reset sets offsets",
		"show":          "group describe shows a group",
		"get":           "group describe shows a group",
		"--group":       "groups are arguments, without a flag",
		"-g":            "groups are arguments, without a flag",
	})
	return c
}

const dryRunDoc = "only list what would be done"
