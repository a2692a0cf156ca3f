package controller

import (
	"context"
	"errors"
	"fmt"

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
	err := c.retry(ctx, what, func() (err error) {
		var txn metadata.Txn
		for i, id := range ids {
			var refused *Error
			if errs[i] = c.addDeletion(ctx, &txn, id); errs[i] != nil && !errors.As(errs[i], &refused) {
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

// addDeletion adds a topic's deletion to a transaction.
func (c *Controller) addDeletion(ctx context.Context, txn *metadata.Txn, id [16]byte) error {
	rec, kv, err := c.topicByID(ctx, id)
	if err != nil {
		return err
	}
	txn.If = append(txn.If, unchanged(kv))
	txn.Put = append(txn.Put, metadata.KV{Key: metadata.DeletingKey(id),
		Value: metadata.Deleting{Name: rec.Name, Partitions: rec.Partitions}.Encode()})
	txn.Delete = append(txn.Delete, kv.Key, metadata.NameKey(rec.Name), metadata.TopicConfigKey(id))
	for i := range rec.Partitions {
		txn.Delete = append(txn.Delete, metadata.PartitionKey(id, i))
	}
	return nil
}

// ForgetDeleted removes the tombstones of topics whose logs are durably removed from all disks. A
// missing tombstone is not an error.
func (c *Controller) ForgetDeleted(ctx context.Context, ids ...[16]byte) (revision int64, err error) {
	var txn metadata.Txn
	for _, id := range ids {
		txn.Delete = append(txn.Delete, metadata.DeletingKey(id))
	}
	if revision, err = c.opts.Store.Txn(ctx, txn); err != nil {
		return 0, fmt.Errorf("forget %d deleted topics: %w", len(ids), err)
	}
	return revision, nil
}
