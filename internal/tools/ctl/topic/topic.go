// Package topic implements chronikctl topic: create, list, describe, alter, delete, add-partitions,
// elect, move and trim. Each command is in a file of its name. A command never deletes or abandons
// records without a confirmation.
//
// It needs only Kafka's protocol. If there is an admin port, describe also shows what it says of
// logs.
package topic

import (
	"encoding/base64"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// New returns the command topic.
func New(a *app.App) *cobra.Command {
	c := app.Parent("topic", "Create, list, describe, alter and delete topics, and their records",
		create(a), list(a), describe(a), alter(a), addPartitions(a), elect(a), moveCommand(a), trim(a), remove(a))
	const replicas = "chronikctl cluster health lists partitions without a leader or with replicas out of sync"
	cli.Instead(c, map[string]string{
		"consume":        "chronikctl consume TOPIC prints records",
		"produce":        "chronikctl produce TOPIC writes records",
		"get":            "topic describe shows a topic, config get its configs",
		"show":           "topic describe shows a topic",
		"info":           "topic describe shows a topic",
		"alter-config":   "topic alter changes configs",
		"set":            "topic alter changes configs",
		"--profile":      "--config chronik.durability.profile=PROFILE sets it",
		"config":         "topic alter changes configs, config get shows them",
		"trim-prefix":    "topic trim deletes records",
		"delete-records": "topic trim deletes records",
		"rename":         "a topic keeps its name; consume -o json and produce --input json copy records to another one",
		"truncate":       "topic trim NAME --before latest deletes all records",
		"purge":          "topic trim NAME --before latest deletes all records",

		"--under-replicated-partitions": replicas,
		"--unavailable-partitions":      replicas,
		"--under-min-isr-partitions":    replicas,
		"--at-min-isr-partitions":       replicas,
	})
	return c
}

const dryRunDoc = "only check and list what would be done"

// id returns a topic's id in Kafka's notation, or "" if the broker has none.
func id(t kadm.TopicID) string {
	if t == (kadm.TopicID{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(t[:])
}
