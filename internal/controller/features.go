package controller

import (
	"context"

	"github.com/chronik-io/chronik/internal/metadata"
)

// Features are levels of the features that clients see. -1 leaves a level as it is.
type Features struct {
	Transactions int16 // transaction.version
	Shares       int16 // share.version
}

// SetFeatures sets levels of features, all of them or none. They can be set at any time:
//
//   - The version of each request decides how the broker treats transactions, and coordinators read
//     both formats of their records.
//   - At level 0 of share.version, the requests of share groups are refused. Their records and
//     states stay. A higher level needs the feature level metadata.ShareLevel. All registered
//     brokers must support that. The cluster is raised with it, to the highest level that all of
//     them support: so the request that gives a cluster share groups completes any upgrade.
//
// With validateOnly nothing is changed.
func (c *Controller) SetFeatures(ctx context.Context, want Features, validateOnly bool) (revision int64, err error) {
	if want.Transactions > metadata.MaxTransactionVersion {
		return 0, refuse(InvalidFeature, "transaction.version has no level %d: choose 0 to %d", want.Transactions,
			metadata.MaxTransactionVersion)
	}
	if want.Shares > metadata.MaxShareVersion {
		return 0, refuse(InvalidFeature, "share.version has no level %d: choose 0 to %d", want.Shares, metadata.MaxShareVersion)
	}
	err = c.retry(ctx, "set features", func() error {
		kv, err := c.get(ctx, metadata.ClusterKey)
		if err != nil {
			return err
		}
		former, err := metadata.DecodeCluster(kv)
		if err != nil {
			return err
		}
		txn := metadata.Txn{If: []metadata.Compare{unchanged(kv)}}
		cluster := former
		if want.Transactions >= 0 {
			cluster.TransactionVersion = want.Transactions
		}
		if want.Shares >= 0 {
			cluster.ShareVersion = want.Shares
		}
		if want.Shares > 0 {
			if err := c.raise(ctx, &cluster, metadata.ShareLevel, &txn); err != nil {
				return err
			}
		}
		if validateOnly {
			return nil
		}
		if cluster != former {
			txn.Put = []metadata.KV{{Key: kv.Key, Value: cluster.Encode()}}
		}
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return revision, err
}

// Raise raises the feature level of the cluster to at least level, if all registered brokers
// support it: to the highest one that they support. It returns an error if that is lower, and does
// nothing if the cluster has it.
func (c *Controller) Raise(ctx context.Context, level int32) (revision int64, err error) {
	err = c.retry(ctx, "raise the feature level", func() error {
		kv, err := c.get(ctx, metadata.ClusterKey)
		if err != nil {
			return err
		}
		cluster, err := metadata.DecodeCluster(kv)
		if err != nil {
			return err
		}
		txn := metadata.Txn{If: []metadata.Compare{unchanged(kv)}}
		former := cluster
		if revision, err = kv.ModRevision, c.raise(ctx, &cluster, level, &txn); err != nil || cluster == former {
			return err
		}
		txn.Put = []metadata.KV{{Key: kv.Key, Value: cluster.Encode()}}
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return revision, err
}

// raise raises the feature level of a cluster to the highest one that all registered brokers
// support, and adds to a transaction that will write it the condition that no broker registers
// again. It returns an error if that is below level. A broker that registers for the first time
// meanwhile, and does not support it, finds out when it reads the level, and stops.
func (c *Controller) raise(ctx context.Context, cluster *metadata.Cluster, level int32, txn *metadata.Txn) error {
	if cluster.FeatureLevel == metadata.MaxFeatureLevel {
		return nil
	}
	kvs, _, err := c.opts.Store.Range(ctx, metadata.BrokerPrefix)
	if err != nil {
		return err
	}
	all := metadata.MaxFeatureLevel
	for _, kv := range kvs {
		b, err := metadata.DecodeBroker(kv)
		if err != nil {
			return err
		}
		if b.Features.Max < level {
			return refuse(InvalidFeature, "broker %d runs a version of chronik that supports feature levels up to %d, and this needs %d; "+
				"upgrade the broker, or unregister it", b.ID, b.Features.Max, level)
		}
		all = min(all, b.Features.Max)
		txn.If = append(txn.If, unchanged(kv))
	}
	cluster.FeatureLevel = max(cluster.FeatureLevel, all)
	return nil
}
