package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
)

// Limits of one operation.
const (
	// maxAttempts bounds how often an operation is retried because of concurrent writes.
	maxAttempts = 32
	// MaxPartitions is how many partitions one operation may create: Kafka's limit for one request.
	MaxPartitions = 10_000
)

// Options configure a Controller.
type Options struct {
	Store   metadata.Store
	Configs *configdef.Registry
	// NumPartitions and ReplicationFactor are the defaults for new topics; values below 1 count as
	// 1.
	NumPartitions     int32
	ReplicationFactor int16
	// Groups bounds the configs of consumer groups.
	Groups configdef.Groups
}

// Controller changes metadata. Its methods may be called concurrently; it has no state of its own.
type Controller struct {
	opts Options
}

// New returns a controller. It starts no goroutine.
func New(opts Options) *Controller {
	opts.NumPartitions = max(opts.NumPartitions, 1)
	opts.ReplicationFactor = max(opts.ReplicationFactor, 1)
	return &Controller{opts: opts}
}

// retry runs attempt until it succeeds or fails for another reason than a concurrent write, but at
// most maxAttempts times.
func (c *Controller) retry(ctx context.Context, what string, attempt func() error) error {
	var err error
	for range maxAttempts {
		if err = attempt(); err == nil {
			return nil
		}
		var refused *Error
		if errors.As(err, &refused) {
			return err
		}
		if !errors.Is(err, metadata.ErrConflict) || ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// get reads one key; a missing one is not an error.
func (c *Controller) get(ctx context.Context, key string) (metadata.KV, error) {
	kv, _, err := c.opts.Store.Get(ctx, key)
	if err == nil {
		kv.Key = key
	}
	return kv, err
}

// unchanged is the condition that a key is as it was read, or still missing.
func unchanged(kv metadata.KV) metadata.Compare {
	return metadata.Compare{Key: kv.Key, ModRevision: kv.ModRevision}
}

// topicByName reads a topic's record by name, with its key-value. The name must match exactly: a
// colliding name is not enough.
func (c *Controller) topicByName(ctx context.Context, name string) (id [16]byte, rec metadata.TopicRecord, kv metadata.KV, err error) {
	unknown := refuse(UnknownTopic, "The topic '%s' does not exist.", name)
	nameKV, err := c.get(ctx, metadata.NameKey(name))
	if err != nil {
		return id, rec, kv, err
	}
	if nameKV.ModRevision == 0 {
		return id, rec, kv, unknown
	}
	n, err := metadata.DecodeName(nameKV)
	if err != nil {
		return id, rec, kv, err
	}
	if n.Topic != name {
		return id, rec, kv, unknown
	}
	rec, kv, err = c.topicByID(ctx, n.ID)
	var refused *Error
	if errors.As(err, &refused) {
		err = unknown // deleted between the two reads
	}
	return n.ID, rec, kv, err
}

func (c *Controller) topicByID(ctx context.Context, id [16]byte) (rec metadata.TopicRecord, kv metadata.KV, err error) {
	if kv, err = c.get(ctx, metadata.TopicKey(id)); err != nil {
		return rec, kv, err
	}
	if kv.ModRevision == 0 {
		return rec, kv, refuse(UnknownTopicID, "There is no topic with the id %s.", metadata.FormatID(id))
	}
	rec, err = metadata.DecodeTopicRecord(kv)
	return rec, kv, err
}

// brokers returns the ids of the registered brokers, ascending.
func (c *Controller) brokers(ctx context.Context) ([]int32, error) {
	kvs, _, err := c.opts.Store.Range(ctx, metadata.BrokerPrefix)
	if err != nil {
		return nil, err
	}
	return brokerIDs(kvs)
}
