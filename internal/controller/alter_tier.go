package controller

import (
	"context"

	"github.com/chronik-io/chronik/internal/metadata"
)

// AlterTier changes what the object store has of a partition. The error matches
// metadata.ErrConflict if it was refused: the caller reads and decides again. After any other
// error the outcome is unknown.
func (c *Controller) AlterTier(ctx context.Context, x *metadata.TierChange) (revision int64, err error) {
	key := metadata.TierKey(x.TopicPartition)
	txn := metadata.Txn{If: []metadata.Compare{
		{Key: key, ModRevision: x.Was},
		{Key: metadata.PartitionKey(x.Topic, x.Partition), ModRevision: x.Record},
	}}
	if x.Collection >= 0 {
		txn.If = append(txn.If, metadata.Compare{Key: metadata.CollectionKey, ModRevision: x.Collection})
	}
	if x.Next == nil {
		txn.Delete = []string{key}
	} else {
		txn.Put = []metadata.KV{{Key: key, Value: x.Next.Encode()}}
	}
	return c.opts.Store.Txn(ctx, txn)
}

// NameStore names the mark of the cluster's object store, if there is none. The error matches
// metadata.ErrConflict if there is one.
func (c *Controller) NameStore(ctx context.Context, x metadata.ObjectStore) (revision int64, err error) {
	return c.opts.Store.Txn(ctx, metadata.Txn{If: []metadata.Compare{{Key: metadata.ObjectStoreKey}},
		Put: []metadata.KV{{Key: metadata.ObjectStoreKey, Value: x.Encode()}}})
}

// checkRemote refuses to leave the records of a topic that only the object store has without an
// owner, as Kafka does.
func (c *Controller) checkRemote(res Resource, before, after map[string]string) error {
	if res.Type != TopicResource {
		return nil
	}
	was, _ := c.opts.Configs.Remote(before)
	is, mayDelete := c.opts.Configs.Remote(after)
	switch {
	case is && !was && !c.opts.HasArchive:
		return refuse(InvalidConfig, "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage. "+
			"Set archive.url on all brokers first; see docs/tiered-storage.md")
	case was && !is && !mayDelete:
		return refuse(InvalidConfig, "It is invalid to disable remote storage without deleting remote data. "+
			"If you want to keep the remote data and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. "+
			"If you want to disable remote storage and delete all remote data, please set "+
			"`remote.storage.enable=false,remote.log.delete.on.disable=true`.")
	}
	return nil
}
