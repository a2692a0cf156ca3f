package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
)

// DeleteTopic removes a topic with its partitions and configs, and leaves a tombstone, in one
// transaction. It returns UnknownTopicID if there is no such topic.
func (c *Controller) DeleteTopic(ctx context.Context, id [16]byte) (revision int64, err error) {
	revision, errs := c.DeleteTopics(ctx, [][16]byte{id})
	return revision, errs[0]
}

// DeleteTopics removes topics, all existing ones in one transaction. Each id must appear once. The
// errors are in the order of ids; UnknownTopicID means that there is no such topic. The revision is
// 0 if nothing was removed.
func (c *Controller) DeleteTopics(ctx context.Context, ids [][16]byte) (revision int64, errs []error) {
	what := fmt.Sprintf("delete %d topics", len(ids))
	if len(ids) == 1 {
		what = "delete topic " + metadata.FormatID(ids[0])
	}
	errs = make([]error, len(ids))
	err := c.retry(ctx, what, func() error {
		kvs, _, err := c.opts.Store.Range(ctx, metadata.BrokerPrefix)
		if err != nil {
			return err
		}
		brokers, err := brokerIDs(kvs)
		if err != nil {
			return err
		}
		var txn metadata.Txn
		for _, kv := range kvs { // no broker removes the key of one that has left
			txn.If = append(txn.If, unchanged(kv))
		}
		for i, id := range ids {
			var refused *Error
			if errs[i] = c.addDeletion(ctx, &txn, id, brokers); errs[i] != nil && !errors.As(errs[i], &refused) {
				return errs[i]
			}
		}
		if len(txn.Put) > 0 {
			revision, err = c.opts.Store.Txn(ctx, txn)
		}
		return err
	})
	if errors.Is(err, metadata.ErrTooLarge) && len(ids) > 1 {
		half := len(ids) / 2
		before, first := c.DeleteTopics(ctx, ids[:half])
		revision, second := c.DeleteTopics(ctx, ids[half:])
		return max(before, revision), append(first, second...)
	}
	for i := range errs {
		var refused *Error
		if err != nil && !errors.As(errs[i], &refused) {
			errs[i] = err
		}
	}
	return revision, errs
}

// addDeletion adds a topic's deletion to a transaction. Every registered broker has to confirm it,
// with or without a replica: one of an earlier assignment may still be on its disks.
func (c *Controller) addDeletion(ctx context.Context, txn *metadata.Txn, id [16]byte, brokers []int32) error {
	rec, kv, err := c.topicByID(ctx, id)
	if err != nil {
		return err
	}
	txn.If = append(txn.If, unchanged(kv))
	txn.Put = append(txn.Put, metadata.KV{Key: metadata.DeletingKey(id),
		Value: metadata.Deleting{Name: rec.Name, Partitions: rec.Partitions}.Encode()})
	for _, b := range brokers {
		txn.Put = append(txn.Put, metadata.KV{Key: metadata.DeletingBrokerKey(id, b), Value: metadata.EncodeWaiting()})
	}
	txn.Delete = append(txn.Delete, kv.Key, metadata.NameKey(rec.Name), metadata.TopicConfigKey(id))
	for i := range rec.Partitions {
		txn.Delete = append(txn.Delete, metadata.PartitionKey(id, i))
	}
	copied, err := c.copied(ctx, id, rec.Partitions)
	if err != nil {
		return err
	}
	configKV, err := c.get(ctx, metadata.TopicConfigKey(id))
	if err != nil {
		return err
	}
	txn.If = append(txn.If, unchanged(configKV)) // a leader may copy records from the next change on
	configs, err := metadata.DecodeConfigs(configKV)
	if _, remote := configs[configdef.RemoteEnable]; err != nil || !remote && !copied {
		return err
	}
	for i := range rec.Partitions { // also those that leaders add until the transaction
		txn.Delete = append(txn.Delete, metadata.TierKey(metadata.TopicPartition{Topic: id, Partition: i}))
	}
	return nil
}

// copied reports whether the object store may have records of a topic. It reads the keys of its
// partitions only: there may be many of others.
func (c *Controller) copied(ctx context.Context, id [16]byte, partitions int32) (bool, error) {
	for i := range partitions {
		kv, err := c.get(ctx, metadata.TierKey(metadata.TopicPartition{Topic: id, Partition: i}))
		if err != nil || kv.ModRevision != 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// ForgetDeleted records that a broker's logs of deleted topics are durably removed, with their
// placements. With the last broker of a topic, it removes the tombstone. It is not an error if the
// broker does not have to confirm a topic.
func (c *Controller) ForgetDeleted(ctx context.Context, broker int32, ids ...[16]byte) (revision int64, err error) {
	err = c.retry(ctx, fmt.Sprintf("forget %d deleted topics", len(ids)), func() error {
		var txn metadata.Txn
		if err := c.addOwn(ctx, &txn, broker); err != nil {
			return err
		}
		kvs, _, err := c.opts.Store.Range(ctx, metadata.DeletingPrefix) // once: there may be thousands of topics
		if err != nil {
			return err
		}
		for _, id := range ids {
			addConfirmation(&txn, kvs, broker, id)
		}
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return revision, err
}

// addConfirmation adds a broker's confirmation of a deletion to a transaction. kvs are the keys of
// all deletions, in order. If another broker has not confirmed yet, the transaction requires that
// this is still so: of two that confirm at once, one conflicts, tries again, and sees that it is
// the last. Whether the other one is registered does not matter: no tombstone may go before all of
// its keys have.
func addConfirmation(txn *metadata.Txn, kvs []metadata.KV, broker int32, id [16]byte) {
	of, mine := metadata.DeletingKey(id)+"/", metadata.DeletingBrokerKey(id, broker)
	first, _ := slices.BinarySearchFunc(kvs, of, func(kv metadata.KV, key string) int { return strings.Compare(kv.Key, key) })
	var other *metadata.KV
	waits := false
	for i := first; i < len(kvs) && strings.HasPrefix(kvs[i].Key, of); i++ {
		if kvs[i].Key == mine {
			waits = true
		} else {
			other = &kvs[i]
		}
	}
	if !waits {
		return
	}
	txn.Delete = append(txn.Delete, mine, metadata.PlacementKey(broker, id))
	if other != nil {
		txn.If = append(txn.If, unchanged(*other))
		return
	}
	txn.Delete = append(txn.Delete, metadata.DeletingKey(id))
}

// confirmStep is how many tombstones one transaction of confirmGone changes.
const confirmStep = 100

// confirmGone confirms the deletions that wait for brokers which are not registered: nothing else
// would. A topic may have been deleted just before a broker was unregistered, so the transaction
// that removes a broker does not know all of them.
func (l *Loop) confirmGone(ctx context.Context, store inTerm) error {
	var txn metadata.Txn
	n := 0
	submit := func() error {
		if n == 0 {
			return nil
		}
		revision, err := store.Txn(ctx, txn)
		if newer, refused := metadata.Refused(err); refused { // a later step decides again
			revision, err = newer, nil
		}
		if err == nil {
			err = l.opt.Images.WaitShown(ctx, revision)
		}
		txn, n = metadata.Txn{}, 0
		return err
	}
	img := l.known().img
	for d := range img.Tombstones() {
		if !addGone(&txn, img, d) {
			continue
		}
		if n++; n == confirmStep {
			if err := submit(); err != nil {
				return err
			}
		}
	}
	return submit()
}

// addGone adds the confirmations of brokers that are not registered, and reports whether there are
// any.
func addGone(txn *metadata.Txn, img *metadata.Image, d *metadata.Deleting) bool {
	var gone, others []int32
	for _, id := range d.Brokers {
		if _, ok := img.Broker(id); ok {
			others = append(others, id)
		} else {
			gone = append(gone, id)
		}
	}
	if len(gone) == 0 {
		return false
	}
	for _, id := range gone { // it may register again, with logs of the topic
		txn.If = append(txn.If, metadata.Compare{Key: metadata.BrokerKey(id)})
		txn.Delete = append(txn.Delete, metadata.DeletingBrokerKey(d.ID, id))
	}
	still := gone[0] // none of them has been confirmed meanwhile
	if len(others) > 0 {
		still = others[0]
	} else {
		txn.Delete = append(txn.Delete, metadata.DeletingKey(d.ID))
	}
	txn.If = append(txn.If, metadata.Compare{Key: metadata.DeletingBrokerKey(d.ID, still), ModRevision: d.Revision})
	return true
}
