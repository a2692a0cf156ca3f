// Package snapshot implements chronikctl snapshot: create, list, describe, verify and delete.
//
// It needs chronik's tagged fields (view.SnapshotTag) of two requests of Kafka's protocol. Any
// broker takes them. The broker that leads the metadata does the work, and the commands wait for
// it: create, verify and delete succeed only when it is done. The package does not know the object
// store.
package snapshot

import (
	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// New returns the command snapshot.
func New(a *app.App) *cobra.Command {
	c := app.Parent("snapshot", "Take, list, verify and delete snapshots of the cluster",
		create(a), list(a), describe(a), verify(a), remove(a))
	c.Aliases = []string{"snapshots"}
	cli.Instead(c, map[string]string{
		"restore": "chronikd restore URL --config FILE restores a snapshot into empty directories",
		"take":    "snapshot create takes one",
		"show":    "snapshot describe shows one",
		"remove":  "snapshot delete deletes one",
		"check":   "snapshot verify reads one and compares it with its checksums",
	})
	return c
}
