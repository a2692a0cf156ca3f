package broker

import (
	"context"
	"slices"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/view"
)

// Cluster is what handlers ask of the cluster of which this broker is a member, perhaps the only
// one. Its methods may be called concurrently. Those with a context may ask the broker that leads
// the metadata, and return when the context ends at the latest. Their errors match
// *controller.Error if that broker refused, and controller.ErrNotController if none leads.
type Cluster interface {
	// Leader returns the member that leads the metadata, 0 if none is known. It does not block.
	Leader() uint64
	// Quorum returns the state of the metadata quorum as its leader sees it.
	Quorum(ctx context.Context) (controller.Quorum, error)
	// Unregister removes a broker for good. It returns the revision of the change.
	Unregister(ctx context.Context, broker int32) (revision int64, err error)
	// ElectUnclean elects leaders for partitions that have none, although they may lack
	// acknowledged records. It returns a revision that shows the result, and an error or nil for
	// each partition.
	ElectUnclean(ctx context.Context, list []metadata.TopicPartition) (revision int64, errs []error)
	// Snapshots returns what the metadata leader does about snapshots, and AskSnapshot passes a
	// request of an operator to it.
	Snapshots(ctx context.Context) (view.Snapshots, error)
	AskSnapshot(ctx context.Context, q view.SnapshotAsk) (view.SnapshotAnswer, error)
}

// brokerOf returns the broker that a member is registered as, or that was registered with it before
// its metadata directory was lost; -1 if there is none.
func brokerOf(img *metadata.Image, member uint64) int32 {
	if member == 0 {
		return -1
	}
	for _, b := range img.Brokers() {
		if b.Member == member || slices.Contains(b.Former, member) {
			return b.ID
		}
	}
	return -1
}

// controllerID returns the broker that clients should ask for changes of the metadata: the one that
// leads it, because there they are fastest. Every broker accepts such requests, so a client that
// cannot reach the leader is sent here.
func (b *Handler) controllerID(r *network.Request, img *metadata.Image) int32 {
	leader := brokerOf(img, b.opt.Cluster.Leader())
	if _, ok := b.node(r, img, leader); ok {
		return leader
	}
	return b.opt.Self
}
