package controller

import (
	"context"
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/metadata"
)

// ProducerIDBlockSize is the number of producer ids that a broker reserves at a time, as in Kafka.
const ProducerIDBlockSize = 1000

func brokerIDs(kvs []metadata.KV) ([]int32, error) {
	ids := make([]int32, 0, len(kvs))
	for _, kv := range kvs {
		k, err := metadata.ParseKey(kv.Key)
		if err != nil {
			return nil, err
		}
		ids = append(ids, k.Broker)
	}
	return ids, nil
}

// ProducerIDBlock reserves producer ids. They are never reserved again, whatever happens to the
// caller.
func (c *Controller) ProducerIDBlock(ctx context.Context) (first, count int64, err error) {
	err = c.retry(ctx, "reserve producer ids", func() error {
		kv, err := c.get(ctx, metadata.ProducerIDsKey)
		if err != nil {
			return err
		}
		if kv.ModRevision == 0 { // the first metadata has it: some were given, and which ones is unknown
			return fmt.Errorf("the metadata has no %s, so that no producer id is known to be unused; restore it from a copy "+
				"(docs/cluster.md)", kv.Key)
		}
		ids, err := metadata.DecodeProducerIDs(kv)
		if err != nil {
			return err
		}
		if ids.Next > math.MaxInt64-ProducerIDBlockSize {
			return refuse(InvalidRequest, "all producer ids have been used")
		}
		first = ids.Next
		ids.Next += ProducerIDBlockSize
		_, err = c.opts.Store.Txn(ctx, metadata.Txn{
			If:  []metadata.Compare{unchanged(kv)},
			Put: []metadata.KV{{Key: kv.Key, Value: ids.Encode()}},
		})
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return first, ProducerIDBlockSize, nil
}
