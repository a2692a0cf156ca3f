package cluster

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/pause"
)

// currentPause is the time between two questions for the present revision.
const currentPause = 50 * time.Millisecond

// Current waits until the metadata of this node are at least as new as those of the cluster at the
// call. A node that was away shows what it had before. The error is that of ctx, or that of a store
// that is closed.
func (c *Cluster) Current(ctx context.Context) error {
	// A condition that never holds: the leader refuses it and names its revision, and nothing is
	// written.
	never := metadata.Txn{If: []metadata.Compare{{Key: metadata.ClusterKey, ModRevision: math.MaxInt64}}}
	for {
		_, err := c.store.Txn(ctx, never)
		if revision, ok := metadata.Refused(err); ok {
			return c.store.WaitFor(ctx, revision)
		}
		if errors.Is(err, metadata.ErrClosed) {
			return err
		}
		if err := pause.Sleep(ctx, currentPause); err != nil { // there is no leader, or it changed
			return err
		}
	}
}
