package controller

import (
	"context"
	"maps"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// QuotaChange sets and removes limits of one entity. Both are named as in Kafka.
type QuotaChange struct {
	Entity quota.Entity
	Set    map[string]float64
	Remove []string // those that the entity does not have are ignored
}

// AlterQuotas makes all changes, or none if it returns an error. Each entity may appear once. It
// returns a revision that shows them.
func (c *Controller) AlterQuotas(ctx context.Context, changes []QuotaChange) (revision int64, err error) {
	if err := checkAtOnce(len(changes), "changes the quotas of", "entities"); err != nil {
		return 0, err
	}
	err = c.retry(ctx, "alter quotas", func() error {
		kvs, _, err := c.opts.Store.Range(ctx, metadata.QuotaPrefix)
		if err != nil {
			return err
		}
		present := make(map[string]metadata.KV, len(kvs))
		for _, kv := range kvs {
			present[kv.Key] = kv
		}
		var txn metadata.Txn
		n := len(kvs)
		for i := range changes {
			key := metadata.QuotaKey(changes[i].Entity)
			kv := present[key]
			kv.Key = key
			txn.If = append(txn.If, unchanged(kv))
			next, changed, err := changes[i].apply(kv)
			switch {
			case err != nil:
				return err
			case !changed:
			case len(next.Limits) == 0:
				txn.Delete = append(txn.Delete, key)
			default:
				txn.Put = append(txn.Put, metadata.KV{Key: key, Value: next.Encode()})
				if kv.ModRevision == 0 {
					n++
				}
			}
		}
		if err := checkEntries(len(kvs), n, "entities with quotas", "Give a default quota instead of one for each."); err != nil {
			return err
		}
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return revision, err
}

// apply returns the quota after the change of the one in kv, whose revision is 0 if there is none.
func (x *QuotaChange) apply(kv metadata.KV) (next metadata.Quota, changed bool, err error) {
	was := metadata.Quota{Entity: x.Entity}
	if kv.ModRevision != 0 {
		if was, err = metadata.DecodeQuota(kv); err != nil {
			return was, false, err
		}
	}
	next = metadata.Quota{Entity: x.Entity, Limits: map[string]float64{}}
	maps.Copy(next.Limits, was.Limits)
	for _, name := range x.Remove {
		delete(next.Limits, name)
	}
	maps.Copy(next.Limits, x.Set)
	return next, !maps.Equal(was.Limits, next.Limits), nil
}
