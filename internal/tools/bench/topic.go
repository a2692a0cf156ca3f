package bench

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/pause"
)

// Limits of requests before and after a run.
const (
	adminTimeout = 60 * time.Second
	leaderPause  = 50 * time.Millisecond
)

// topic is the topic of a run.
type topic struct {
	config Config
	client *kgo.Client
	secure *tls.Config // nil without TLS
	made   bool        // created by this run
	ready  bool        // every partition has a leader
}

// prepare creates the topic if the run should, and waits until every partition has a leader.
func (t *topic) prepare(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, adminTimeout)
	defer stop()
	name := t.config.Topic
	if t.config.Makes() {
		if err := t.create(ctx); err != nil {
			return err
		}
	}
	admin := kadm.NewClient(t.client)
	for {
		m, err := admin.Metadata(ctx, name)
		if err != nil {
			return fmt.Errorf("metadata of %s: %w", name, err)
		}
		found := m.Topics[name]
		if errors.Is(found.Err, kerr.UnknownTopicOrPartition) && !t.config.Makes() {
			return fmt.Errorf("topic %s: %w", name, &refusal{err: found.Err})
		}
		if found.Err != nil && !kerr.IsRetriable(found.Err) {
			return fmt.Errorf("metadata of %s: %w", name, &refusal{err: found.Err})
		}
		if led(found) {
			t.ready = true
			return nil
		}
		if pause.Sleep(ctx, leaderPause) != nil {
			return fmt.Errorf("wait for leaders of %s: %w", name, cmp.Or(found.Err, ctx.Err()))
		}
	}
}

// led reports whether all partitions of the topic have leaders.
func led(t kadm.TopicDetail) bool {
	if t.Err != nil || len(t.Partitions) == 0 {
		return false
	}
	for _, p := range t.Partitions {
		if p.Err != nil || p.Leader < 0 {
			return false
		}
	}
	return true
}

func (t *topic) create(ctx context.Context) error {
	c := t.config
	settings := make(map[string]*string)
	for k, v := range c.TopicConfig {
		settings[k] = &v
	}
	made, err := kadm.NewClient(t.client).CreateTopic(ctx, int32(c.Partitions), int16(c.ReplicationFactor), settings, c.Topic)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		if !c.CreateTopic {
			return nil // the user did not ask for a certain number of partitions
		}
		return t.matches(ctx)
	}
	if err != nil {
		return fmt.Errorf("create topic %s: %w", c.Topic, &refusal{err, made.ErrMessage})
	}
	t.made = true
	return nil
}

// leaves describes what remains of the topic and how to remove it. It is called after the run, also
// after a failed one; the text has no size if the broker does not report it.
func (t *topic) leaves(ctx context.Context) string {
	c := t.config
	if c.DeleteTopic {
		return ""
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), adminTimeout)
	defer stop()
	var size int64
	dirs, err := kadm.NewClient(t.client).DescribeAllLogDirs(ctx, nil)
	dirs.Each(func(d kadm.DescribedLogDir) {
		for _, p := range d.Topics[c.Topic] {
			size += p.Size
		}
	})
	text := "Topic " + c.Topic + " remains"
	if t.made {
		text = "Topic " + c.Topic + " was created and remains"
	}
	if err == nil {
		text += fmt.Sprintf(", with %.1f MB", float64(size)/1e6)
	}
	return text + ": chronikctl topic delete " + c.Topic + " deletes it, and so does a run with --delete-topic."
}

// end deletes the topic if the run should, and adds to the error of a failed run that the topic
// which it created remains.
func (t *topic) end(ctx context.Context, err error) error {
	switch {
	case t.config.DeleteTopic && (t.made || t.ready):
		return errors.Join(err, t.remove(ctx))
	case err != nil && t.made:
		return fmt.Errorf("%w\n%s", err, t.leaves(ctx))
	}
	return err
}

// matches rejects an existing topic with another number of partitions.
func (t *topic) matches(ctx context.Context) error {
	m, err := kadm.NewClient(t.client).Metadata(ctx, t.config.Topic)
	if err != nil {
		return fmt.Errorf("metadata of %s: %w", t.config.Topic, err)
	}
	if n := len(m.Topics[t.config.Topic].Partitions); n != t.config.Partitions {
		return fmt.Errorf("topic %s exists with %d partitions, not %d: choose another topic", t.config.Topic, n, t.config.Partitions)
	}
	return nil
}

// remove deletes the topic, also if ctx has ended.
func (t *topic) remove(ctx context.Context) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), adminTimeout)
	defer stop()
	if _, err := kadm.NewClient(t.client).DeleteTopic(ctx, t.config.Topic); err != nil {
		return fmt.Errorf("delete topic %s: %w", t.config.Topic, err)
	}
	return nil
}
