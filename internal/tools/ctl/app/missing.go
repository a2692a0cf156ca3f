package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/text"
)

// noTopic is the error for a topic that does not exist.
type noTopic struct{ near string }

// NoTopic returns UNKNOWN_TOPIC_OR_PARTITION for the name of a missing topic. It asks the broker
// for its topics and suggests the closest name.
func NoTopic(ctx context.Context, adm *kadm.Client, name string) error {
	e := &noTopic{}
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		return e
	}
	var names []string
	for _, t := range topics.Sorted() {
		if t.Err == nil { // the client's answer may still contain the missing topic
			names = append(names, t.Topic)
		}
	}
	e.near, _ = text.Closest(name, names)
	return e
}

// UnknownTopic returns a text that there is no topic with this name, and which one may be meant.
func UnknownTopic(ctx context.Context, adm *kadm.Client, name string) string {
	e := &noTopic{}
	if errors.As(NoTopic(ctx, adm, name), &e) && e.near != "" {
		return fmt.Sprintf("there is no topic %s (did you mean %s?)", name, e.near)
	}
	return "there is no topic " + name
}

func (e *noTopic) Unwrap() error { return kerr.UnknownTopicOrPartition }

func (e *noTopic) Error() string {
	return kerr.UnknownTopicOrPartition.Message + ": there is no such topic"
}

func (e *noTopic) remedy() string {
	if e.near != "" {
		return "did you mean " + e.near + "?"
	}
	return "chronikctl topic list shows the topics"
}
