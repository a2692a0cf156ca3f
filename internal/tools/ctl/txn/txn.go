// Package txn implements chronikctl txn: list, describe, find-hanging and abort.
//
// It needs only Kafka's protocol. Coordinators know the transactional ids, leaders know the
// transactions that are open in their partitions; a transaction hangs if a leader has it open and
// no coordinator will end it. abort never ends a transaction whose outcome is decided, and in a
// single partition it ends only one that no coordinator has. Each command is in a file of its name;
// state.go fetches the data that they share.
package txn

import (
	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// New returns the command txn.
func New(a *app.App) *cobra.Command {
	c := app.Parent("txn", "List, describe and abort transactions, and find those that hang",
		list(a), describe(a), findHanging(a), abort(a))
	c.Aliases = []string{"transaction"}
	cli.Instead(c, map[string]string{
		"show":               "txn describe shows a transaction",
		"get":                "txn describe shows a transaction",
		"hanging":            "txn find-hanging finds transactions that nothing will end",
		"fence":              "txn abort ID fences the producer",
		"terminate":          "txn abort ID ends the transaction",
		"delete":             "txn abort ID ends the transaction; the broker removes unused ids after transactional.id.expiration.ms",
		"describe-producers": "txn find-hanging shows the open transactions of partitions that nothing will end",
	})
	return c
}
