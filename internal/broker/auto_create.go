package broker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// Metadata creates topics that do not exist, if the request and the broker allow it, and does not
// wait for them. Kafka does not wait either, and clients' own test suites rely on the answer
// UNKNOWN_TOPIC_OR_PARTITION. A client retries after its back-off, when the topic exists. If the
// topic could not be created, that answer contains the reason, and the next one starts another
// attempt.

// autoCreateTime bounds one attempt to create topics.
const autoCreateTime = 10 * time.Second

// maxCreations bounds the topics in creations. Beyond it no topic is created until others are done;
// clients keep retrying.
const maxCreations = 10_000

// creations holds the topics that are being created on behalf of clients, each with nil, and those
// that could not be created, each with the reason. The zero value is empty.
type creations struct {
	mu     sync.Mutex
	topics map[string]error
	failed int // topics with a reason
}

// begin records names as being created, and returns those that were not yet. It asks may for each
// of these, unless it is nil, and leaves out those that may not. A topic whose last attempt failed
// is not created again but returned with the reason, once.
func (c *creations) begin(names []string, may func(name string) bool) (fresh []string, failed map[string]error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.topics == nil {
		c.topics = map[string]error{}
	}
	for _, name := range names {
		switch err, known := c.topics[name]; {
		case err != nil:
			if failed == nil {
				failed = map[string]error{}
			}
			failed[name] = err
			delete(c.topics, name)
			c.failed--
		case !known && len(c.topics) < maxCreations && (may == nil || may(name)):
			c.topics[name] = nil
			fresh = append(fresh, name)
		}
	}
	return fresh, failed
}

// end records the results for names; failed maps the topics that could not be created to their
// errors. If too many errors are kept for clients that never ask, end drops them.
func (c *creations) end(names []string, failed map[string]error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		delete(c.topics, name)
	}
	if c.failed+len(failed) > maxCreations/2 {
		for name, err := range c.topics {
			if err != nil {
				delete(c.topics, name)
			}
		}
		c.failed = 0
	}
	for name, err := range failed {
		c.topics[name] = err
		c.failed++
	}
}

// autoCreate starts creating the topics that a request may create, in the background, and returns
// why some could not be created.
//
// The client needs the rights to describe and to create them. Who may do only one of the two gets
// the same error as for a topic that exists. A client over its quota of partitions retries, as it
// does until a topic exists.
func (b *Handler) autoCreate(img *metadata.Image, r *network.Request, req *kmsg.MetadataRequest) (failed map[string]error) {
	m, tenant := b.rights(r), b.tenant(r)
	denials := map[string]error{}
	missing := slices.DeleteFunc(b.toCreate(img, req), func(name string) bool {
		if m.topic(acl.Describe, name) == nil && m.create(name) == nil {
			return false
		}
		denials[name] = denied(kerr.TopicAuthorizationFailed)
		return true
	})
	if len(missing) == 0 {
		return denials
	}
	defer func() {
		if failed == nil {
			failed = denials
		} else {
			maps.Copy(failed, denials)
		}
	}()
	if err := b.canCreate(img); err != nil {
		failed = map[string]error{}
		for _, name := range missing {
			failed[name] = err // clients treat this code as temporary and retry
		}
		return failed
	}
	var may func(string) bool
	if tenant.Limited(quota.Mutations) {
		may = func(string) bool { return tenant.Take(quota.Mutations, int64(b.conf.NumPartitions)) }
	}
	fresh, failed := b.creations.begin(missing, may)
	if len(fresh) > 0 {
		specs := make([]controller.TopicSpec, len(fresh))
		for i, name := range fresh {
			specs[i] = controller.TopicSpec{Name: name, Partitions: -1, ReplicationFactor: -1}
		}
		ctx := b.contextOf(r)
		b.work.Go(func() { b.creations.end(fresh, b.createTopics(ctx, specs)) })
	}
	return failed
}

// toCreate returns the topics that do not exist and that the request and this broker allow to be
// created. Internal topics are created by the components that write to them.
func (b *Handler) toCreate(img *metadata.Image, req *kmsg.MetadataRequest) []string {
	if !b.conf.AutoCreateTopics || req.Version >= 4 && !req.AllowAutoTopicCreation {
		return nil
	}
	var missing []string
	for i := range req.Topics {
		t := &req.Topics[i]
		if t.TopicID != [16]byte{} || img.Topic(*t.Topic) != nil || metadata.IsInternal(*t.Topic) {
			continue
		}
		if controller.CheckTopicName(*t.Topic) == nil {
			missing = append(missing, *t.Topic)
		}
	}
	return distinct(missing)
}

// createTopics creates topics and waits until they are usable. It returns why some could not be
// created.
func (b *Handler) createTopics(ctx context.Context, specs []controller.TopicSpec) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, autoCreateTime)
	defer cancel()
	failed := map[string]error{}
	var revision int64
	for len(specs) > 0 {
		n := b.atOnce(specs)
		for i, made := range b.opt.Controller.CreateTopics(ctx, specs[:n]) {
			var refused *controller.Error
			switch {
			case made.Err == nil:
				revision = max(revision, made.Revision)
			case errors.As(made.Err, &refused) && refused.Kind == controller.TopicExists:
			case errors.Is(made.Err, context.DeadlineExceeded): // it may have been created
			default:
				failed[specs[i].Name] = changeError(made.Err)
				b.opt.Logger.Warn("topic not created", zap.String("topic", specs[i].Name), zap.Error(made.Err))
			}
		}
		specs = specs[n:]
	}
	if revision > 0 {
		_ = b.opt.Metadata.WaitFor(ctx, revision) // after a timeout the topic is still being applied
	}
	return failed
}

// atOnce returns how many topics fit into the partition limit of one operation, at least one.
func (b *Handler) atOnce(specs []controller.TopicSpec) (n int) {
	partitions := 0
	for _, s := range specs {
		if s.Partitions < 0 {
			partitions += int(b.conf.NumPartitions)
		} else {
			partitions += int(s.Partitions)
		}
		if partitions > controller.MaxPartitions {
			break
		}
		n++
	}
	return max(n, 1)
}
