// Package solestore opens a metadata store for tests: that of an only voter. It begins empty, at
// revision 0, where a broker's store begins with the first metadata of its cluster. It belongs
// to tests only.
package solestore

import (
	"context"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
)

// Open opens the store in a directory, and makes it if there is none. The test closes it.
func Open(t testing.TB, o raftstore.Options) *raftstore.Store {
	t.Helper()
	s, err := Try(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Try is Open for a disk that may fail.
func Try(o raftstore.Options) (*raftstore.Store, error) {
	s, err := raftstore.Open(o)
	if err != nil || s.Sole() != 0 {
		return s, err
	}
	if err := s.Bootstrap(raftstore.Initial{Generation: [16]byte{1}, Voters: []uint64{s.Member()}}); err != nil {
		_ = s.Close() // the cause is more important
		return nil, err
	}
	return s, nil
}

// Register registers a broker as active, under a new incarnation, without the steps of a
// registration (controller.Loop), and begins the cluster if there is none. It returns the
// incarnation and the broker epoch.
func Register(ctx context.Context, s metadata.Store, id int32, rack string) (incarnation [16]byte, epoch int64, err error) {
	kv, _, err := s.Get(ctx, metadata.ClusterKey)
	if err != nil {
		return incarnation, 0, err
	}
	var put []metadata.KV
	if kv.ModRevision == 0 {
		put = metadata.First(metadata.NewCluster(metadata.FormatID(metadata.NewID()), metadata.NewID()))
	}
	incarnation = metadata.NewID()
	broker := metadata.Broker{
		Incarnation: incarnation, Rack: rack, Features: metadata.Features{Min: 1, Max: metadata.MaxFeatureLevel},
	}
	state := metadata.BrokerState{Liveness: metadata.Active, Incarnation: incarnation}
	put = append(put, metadata.KV{Key: metadata.BrokerKey(id), Value: broker.Encode()},
		metadata.KV{Key: metadata.LivenessKey(id), Value: state.Encode()})
	epoch, err = s.Txn(ctx, metadata.Txn{Put: put})
	return incarnation, epoch, err
}
