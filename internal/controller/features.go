package controller

import (
	"context"

	"github.com/chronik-io/chronik/internal/metadata"
)

// SetTransactionVersion sets the level of transaction.version. All levels can be set at any time:
// the version of each request decides how the broker treats it, and coordinators read both formats
// of their records.
func (c *Controller) SetTransactionVersion(ctx context.Context, level int16) (revision int64, err error) {
	if level < 0 || level > metadata.MaxTransactionVersion {
		return 0, refuse(InvalidFeature, "transaction.version has no level %d: choose 0 to %d", level, metadata.MaxTransactionVersion)
	}
	err = c.retry(ctx, "set transaction.version", func() error {
		kv, err := c.get(ctx, metadata.ClusterKey)
		if err != nil {
			return err
		}
		cluster, err := metadata.DecodeCluster(kv)
		if err != nil {
			return err
		}
		if cluster.TransactionVersion == level {
			revision = kv.ModRevision
			return nil
		}
		cluster.TransactionVersion = level
		revision, err = c.opts.Store.Txn(ctx, metadata.Txn{
			If:  []metadata.Compare{unchanged(kv)},
			Put: []metadata.KV{{Key: kv.Key, Value: cluster.Encode()}},
		})
		return err
	})
	return revision, err
}
