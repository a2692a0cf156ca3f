package app

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// RegexHelp is the help of the flag --regex of commands that take names of topics.
const RegexHelp = "the names are regular expressions; they match no internal topic"

// Moves returns the moves in progress of topics, and of all without topics. The library asks for
// those of the partitions that it is given, and for nothing if it is given none.
func Moves(ctx context.Context, adm *kadm.Client, topics ...string) (kadm.ListPartitionReassignmentsResponses, error) {
	all, err := adm.ListTopicsWithInternal(ctx, topics...)
	var moves kadm.ListPartitionReassignmentsResponses
	if err == nil {
		moves, err = adm.ListPartitionReassignments(ctx, all.TopicsSet())
	}
	if err = BrokerError(err); err != nil && !IsUnsupported(err) {
		return nil, Refused("read the moves in progress", err, "")
	}
	for topic, partitions := range moves {
		if len(partitions) == 0 {
			delete(moves, topic)
		}
	}
	return moves, nil
}

// FindTopics returns the topics with the given names or, with regex, each topic whose whole name
// matches one of them, sorted. missing has an error for each name or expression without a topic.
func FindTopics(ctx context.Context, adm *kadm.Client, names []string, regex bool) (
	found []kadm.TopicDetail, missing map[string]error, err error,
) {
	if regex {
		return matchTopics(ctx, adm, names)
	}
	return lookupTopics(ctx, adm, names)
}

func lookupTopics(ctx context.Context, adm *kadm.Client, names []string) (found []kadm.TopicDetail, missing map[string]error, err error) {
	topics, err := adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, nil, Refused("look up topics", BrokerError(err), "")
	}
	missing = map[string]error{}
	for _, name := range names {
		switch t, ok := topics[name]; {
		case strings.ContainsAny(name, `*?+|()[]{}^$\`):
			missing[name] = fmt.Errorf("%q is not a valid name of a topic; --regex treats it as a regular expression", name)
		case !ok:
			missing[name] = NoTopic(ctx, adm, name)
		case errors.Is(t.Err, kerr.UnknownTopicOrPartition):
			missing[name] = NoTopic(ctx, adm, name)
		case t.Err != nil:
			missing[name] = t.Err
		default:
			found = append(found, t)
		}
	}
	return found, missing, nil
}

func matchTopics(ctx context.Context, adm *kadm.Client, patterns []string) (found []kadm.TopicDetail, missing map[string]error, err error) {
	all := make([]*regexp.Regexp, len(patterns))
	for i, p := range patterns {
		if all[i], err = regexp.Compile("^(?:" + p + ")$"); err != nil {
			if strings.HasPrefix(p, "*") {
				err = fmt.Errorf("%w; .* stands for any text", err)
			}
			return nil, nil, Usage("--regex: %w", err)
		}
	}
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		return nil, nil, Refused("look up topics", BrokerError(err), "")
	}
	missing = map[string]error{}
	for _, p := range patterns {
		missing[p] = fmt.Errorf("no topic matches %q; %s", p, likeShell(p, topics.Names()))
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

// likeShell returns a hint for an expression that no topic matches. In a pattern of the shell, a *
// stands for any text; in an expression, it repeats what precedes it.
func likeShell(pattern string, names []string) string {
	var b strings.Builder
	for i, c := range pattern {
		if c == '*' && (i == 0 || !strings.ContainsRune(`.)]\`, rune(pattern[i-1]))) {
			b.WriteByte('.')
		}
		b.WriteRune(c)
	}
	if meant, err := regexp.Compile("^(?:" + b.String() + ")$"); err == nil && slices.ContainsFunc(names, meant.MatchString) {
		return fmt.Sprintf("did you mean %q? It is a regular expression, in which .* stands for any text", b.String())
	}
	return "chronikctl topic list shows the topics"
}
