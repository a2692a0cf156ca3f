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
	admin, c := kadm.NewClient(t.client), t.config
	if !c.Makes() {
		if err := awaitLeaders(ctx, admin, c.Topic, false); err != nil {
			return err
		}
		t.ready = true
		return nil
	}
	n := NewTopic{Name: c.Topic, Partitions: c.Partitions, Replicas: c.ReplicationFactor, Config: make(map[string]*string)}
	if !c.CreateTopic {
		n.AnyPartitions = true // the user did not ask for a certain number
	}
	for k, v := range c.TopicConfig {
		n.Config[k] = &v
	}
	var err error
	t.made, err = CreateTopic(ctx, admin, n)
	t.ready = err == nil
	return err
}

// NewTopic is a topic that a measurement needs.
type NewTopic struct {
	Name       string
	Partitions int
	Replicas   int // -1 means the broker's default
	Config     map[string]*string
	// AnyPartitions accepts a topic that exists with another number of partitions.
	AnyPartitions bool
}

// CreateTopic creates a topic unless it exists, and waits up to a minute until every partition has
// a leader. made reports whether it was created, also with an error.
func CreateTopic(ctx context.Context, admin *kadm.Client, n NewTopic) (made bool, err error) {
	ctx, stop := context.WithTimeout(ctx, adminTimeout)
	defer stop()
	answer, err := admin.CreateTopic(ctx, int32(n.Partitions), int16(n.Replicas), n.Config, n.Name)
	exists := errors.Is(err, kerr.TopicAlreadyExists)
	if err != nil && !exists {
		return false, fmt.Errorf("create topic %s: %w", n.Name, &refusal{err, answer.ErrMessage})
	}
	if err := awaitLeaders(ctx, admin, n.Name, true); err != nil || !exists || n.AnyPartitions {
		return !exists, err
	}
	m, err := admin.Metadata(ctx, n.Name)
	if err != nil {
		return false, fmt.Errorf("metadata of %s: %w", n.Name, err)
	}
	if is := len(m.Topics[n.Name].Partitions); is != n.Partitions {
		return false, fmt.Errorf("topic %s exists with %d partitions, not %d: choose another topic", n.Name, is, n.Partitions)
	}
	return false, nil
}

// awaitLeaders waits until every partition of a topic has a leader. A topic that was just created
// may be unknown for a while.
func awaitLeaders(ctx context.Context, admin *kadm.Client, name string, created bool) error {
	ctx, stop := context.WithTimeout(ctx, adminTimeout)
	defer stop()
	for {
		m, err := admin.Metadata(ctx, name)
		if err != nil {
			return fmt.Errorf("metadata of %s: %w", name, err)
		}
		found := m.Topics[name]
		if errors.Is(found.Err, kerr.UnknownTopicOrPartition) && !created {
			return fmt.Errorf("topic %s: %w", name, &refusal{err: found.Err})
		}
		if found.Err != nil && !kerr.IsRetriable(found.Err) {
			return fmt.Errorf("metadata of %s: %w", name, &refusal{err: found.Err})
		}
		if led(found) {
			return nil
		}
		if pause.Sleep(ctx, leaderPause) != nil {
			return fmt.Errorf("wait for leaders of %s: %w", name, cmp.Or(found.Err, ctx.Err()))
		}
	}
}

// DeleteTopic deletes a topic, also if ctx has ended.
func DeleteTopic(ctx context.Context, admin *kadm.Client, name string) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), adminTimeout)
	defer stop()
	if _, err := admin.DeleteTopic(ctx, name); err != nil {
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	return nil
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
		return errors.Join(err, DeleteTopic(ctx, kadm.NewClient(t.client), t.config.Topic))
	case err != nil && t.made:
		return fmt.Errorf("%w\n%s", err, t.leaves(ctx))
	}
	return err
}
