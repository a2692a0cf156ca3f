// Package topic implements chronikctl topic: create, list, describe, alter, delete,
// add-partitions and trim. Each command is in a file of its name.
package topic

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/ctl/app"
)

// New is the command with all those below it.
func New(a *app.App) *cobra.Command {
	c := app.Parent("topic", "Create, list, describe, alter and delete topics, and their records",
		create(a), list(a), describe(a), alter(a), addPartitions(a), trim(a), remove(a))
	cli.Instead(c, map[string]string{
		"consume":      "chronikctl consume TOPIC prints records",
		"produce":      "chronikctl produce TOPIC writes records",
		"get":          "topic describe shows a topic, config get its configs",
		"show":         "topic describe shows a topic",
		"info":         "topic describe shows a topic",
		"alter-config": "topic alter changes configs",
		"set":          "topic alter changes configs",
		"config":       "topic alter changes configs, config get shows them",
		"trim-prefix":  "topic trim deletes records",
		"truncate":     "topic trim NAME --before latest deletes all records",
		"purge":        "topic trim NAME --before latest deletes all records",
	})
	return c
}

const dryRunDoc = "only check and say what would be done"

// id is a topic's id as Kafka writes it; empty where the broker has none.
func id(t kadm.TopicID) string {
	if t == (kadm.TopicID{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(t[:])
}

const regexDoc = "the names are regular expressions, which match whole names; internal topics must be named in full"

// lookup asks for topics; those that are not there come as errors by name.
func lookup(ctx context.Context, adm *kadm.Client, names []string) (found []kadm.TopicDetail, missing map[string]error, err error) {
	topics, err := adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, nil, app.Refused("ask for topics", app.Words(err), "")
	}
	missing = map[string]error{}
	for _, name := range names {
		switch t, ok := topics[name]; {
		case strings.ContainsAny(name, `*?+|()[]{}^$\`):
			missing[name] = fmt.Errorf("%q is no name of a topic; --regex reads it as a regular expression", name)
		case !ok:
			missing[name] = app.NoTopic(ctx, adm, name)
		case errors.Is(t.Err, kerr.UnknownTopicOrPartition):
			missing[name] = app.NoTopic(ctx, adm, name)
		case t.Err != nil:
			missing[name] = t.Err
		default:
			found = append(found, t)
		}
	}
	return found, missing, nil
}

// match is lookup for regular expressions: each topic that any of them matches, by name.
func match(ctx context.Context, adm *kadm.Client, patterns []string) (found []kadm.TopicDetail, missing map[string]error, err error) {
	all := make([]*regexp.Regexp, len(patterns))
	for i, p := range patterns {
		if all[i], err = regexp.Compile("^(?:" + p + ")$"); err != nil {
			return nil, nil, app.Usage("--regex: %w", err)
		}
	}
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		return nil, nil, app.Refused("ask for topics", app.Words(err), "")
	}
	missing = map[string]error{}
	for _, p := range patterns {
		missing[p] = fmt.Errorf("no topic matches %q; chronikctl topic list shows the topics", p)
	}
	for _, t := range topics.Sorted() {
		matched := false
		for i, p := range patterns {
			if all[i].MatchString(t.Topic) {
				matched = true
				delete(missing, p)
			}
		}
		if matched && t.Err == nil {
			found = append(found, t)
		}
	}
	return found, missing, nil
}

// choose is lookup, or match where regex is set.
func choose(ctx context.Context, adm *kadm.Client, names []string, regex bool) (
	found []kadm.TopicDetail, missing map[string]error, err error,
) {
	if regex {
		return match(ctx, adm, names)
	}
	return lookup(ctx, adm, names)
}
