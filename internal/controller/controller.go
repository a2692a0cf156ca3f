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
	// Seeds is how many brokers form the cluster; see DefaultReplicas.
	Seeds int
	// HasArchive reports that this broker has an object store, so that topics may use it.
	HasArchive bool
	// Groups bounds the configs of consumer groups.
	Groups configdef.Groups
	// MinISR returns the effective min.insync.replicas of a partition; nil selects 1.
	MinISR func(*metadata.Image, *metadata.Topic, *metadata.Partition) int
	// Shunned returns HeartbeatAnswer.Shunned of the newest answer; nil for none.
	Shunned func() []int32
}

// Controller changes metadata. Its methods may be called concurrently; it has no state of its own.
type Controller struct {
	opts Options
	own  [16]byte // see As
}

// As returns a controller for a registered broker process. What such a process writes about its
// broker (AssignDirs, ForgetDeleted) is refused as soon as another process of the broker begins to
// register, even if it was sent before: the registration has examined what was written until then.
func (c *Controller) As(incarnation [16]byte) *Controller {
	return &Controller{opts: c.opts, own: incarnation}
}

// addOwn adds the condition of a transaction in which a process writes about its broker: that the
// broker's registration and state are as they were read, and, after As, that they are those of the
// process.
func (c *Controller) addOwn(ctx context.Context, txn *metadata.Txn, broker int32) error {
	kv, err := c.get(ctx, metadata.BrokerKey(broker))
	if err != nil {
		return err
	}
	stateKV, err := c.get(ctx, metadata.LivenessKey(broker))
	if err != nil {
		return err
	}
	txn.If = append(txn.If, unchanged(kv), unchanged(stateKV))
	if c.own == [16]byte{} {
		return nil
	}
	if kv.ModRevision == 0 {
		return refuse(StaleBrokerEpoch, "broker %d is not registered any longer", broker)
	}
	registered, err := metadata.DecodeBroker(kv)
	if err != nil {
		return err
	}
	state, err := metadata.DecodeState(stateKV)
	if err == nil && (registered.Incarnation != c.own || state.Incarnation != c.own) {
		err = refuse(StaleBrokerEpoch, "another process has registered as broker %d, or is about to", broker)
	}
	return err
}

// New returns a controller. It starts no goroutine.
func New(opts Options) *Controller {
	opts.NumPartitions = max(opts.NumPartitions, 1)
	opts.ReplicationFactor = max(opts.ReplicationFactor, 1)
	return &Controller{opts: opts}
}

// known returns what decisions on an image follow from, as far as this broker knows.
func (c *Controller) known(img *metadata.Image) knowledge {
	if c.opts.Shunned == nil {
		return knowledge{img: img}
	}
	return knowledge{img, c.opts.Shunned()}
}

// retry runs attempt until it succeeds or fails for another reason than a concurrent write, but at
// most maxAttempts times.
//
// An attempt reads this broker's state, which may be behind. So it hands what it decides to the
// leader, with what it was decided on as conditions, even if nothing has to change. Otherwise a
// broker that is cut off would acknowledge what the cluster does not have. Only what never changes
// back, such as a feature level that is high enough, needs no leader.
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
		if revision, ok := metadata.Refused(err); ok { // until then the same outdated state would be read again
			if err := c.opts.Store.WaitFor(ctx, revision); err != nil {
				return fmt.Errorf("%s: wait for the change that was in the way: %w", what, err)
			}
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// catchUp waits until this broker's state has all that was acknowledged before the call. It is for
// decisions that also follow from what does not exist.
func (c *Controller) catchUp(ctx context.Context) error {
	revision, err := c.opts.Store.Txn(ctx, metadata.Txn{})
	if err != nil {
		return err
	}
	return c.opts.Store.WaitFor(ctx, revision)
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
