package controller

import (
	"context"
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/metadata"
)

// ProducerIDBlockSize is the number of producer ids that a broker reserves at a time, as in Kafka.
const ProducerIDBlockSize = 1000

// BrokerSpec describes a broker that registers.
type BrokerSpec struct {
	ID   int32
	Rack string
	// SoleBroker means that the store belongs to this broker only. If another broker is registered
	// in it, Register fails, because that broker's partitions would have no leader.
	SoleBroker bool
}

// Registration is a broker's identity.
type Registration struct {
	ClusterID   string
	Incarnation [16]byte
	Revision    int64 // the first version that shows the registration; also the broker's epoch
}

// Register registers a broker under a new incarnation, as active. If there is no cluster yet, it
// creates one, with a permanent id.
func (c *Controller) Register(ctx context.Context, spec BrokerSpec) (Registration, error) {
	var reg Registration
	err := c.retry(ctx, fmt.Sprintf("register broker %d", spec.ID), func() error {
		kv, err := c.get(ctx, metadata.ClusterKey)
		if err != nil {
			return err
		}
		txn := metadata.Txn{If: []metadata.Compare{unchanged(kv)}}
		cluster := metadata.NewCluster(metadata.FormatID(metadata.NewID()), metadata.NewID())
		if kv.ModRevision == 0 {
			txn.Put = append(txn.Put, metadata.First(cluster)...)
		} else if cluster, err = metadata.DecodeCluster(kv); err != nil {
			return err
		}
		if spec.SoleBroker {
			if err := c.checkSoleBroker(ctx, spec.ID); err != nil {
				return err
			}
		}
		reg = Registration{ClusterID: cluster.ID, Incarnation: metadata.NewID()}
		broker := metadata.Broker{
			Incarnation: reg.Incarnation, Rack: spec.Rack, Features: metadata.Features{Min: 1, Max: metadata.MaxFeatureLevel},
		}
		state := metadata.BrokerState{Liveness: metadata.Active, Incarnation: reg.Incarnation}
		txn.Put = append(txn.Put, metadata.KV{Key: metadata.BrokerKey(spec.ID), Value: broker.Encode()},
			metadata.KV{Key: metadata.LivenessKey(spec.ID), Value: state.Encode()})
		reg.Revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	if err != nil {
		return Registration{}, err
	}
	return reg, nil
}

func (c *Controller) checkSoleBroker(ctx context.Context, id int32) error {
	ids, err := c.brokers(ctx)
	if err != nil {
		return err
	}
	for _, other := range ids {
		if other != id {
			return refuse(InvalidRequest,
				"the data directory belongs to the broker with node.id %d, not %d: set node.id=%d, or use another data directory",
				other, id, other)
		}
	}
	return nil
}

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
		if kv.ModRevision == 0 { // the first metadata have it: some were given, and which ones is unknown
			return fmt.Errorf("the metadata have no %s, so that no producer id is known to be unused; restore them from a copy "+
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
