package service

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/replica"
)

const (
	// pruneGrowth is by how many times the bytes of all snapshots a log grows between two prunes. A
	// prune writes these snapshots again, at most, so it adds a quarter to what is written.
	pruneGrowth = 4
	// pruneTime bounds the prune of a partition.
	pruneTime = 30 * time.Second
)

// round is what is known of a partition since its last prune.
type round struct {
	epoch int32 // leader epoch of the shard
	size  int64 // of the log at the last prune, in bytes
	needs int64 // bytes of the snapshots of all states
	why   error // why the last prune deleted nothing, see sharestate.Pruned
}

// prune prunes the partitions that this broker leads, when they have grown, until the service ends.
func (s *Shares) prune() {
	rounds := map[int32]*round{}
	for pause.Wait(s.ctx.Done(), s.opt.PruneInterval) {
		led := map[int32]*round{}
		for _, p := range s.Partitions() {
			if led[p] = rounds[p]; led[p] == nil {
				led[p] = &round{epoch: -1}
			}
			s.pruneGrown(p, led[p])
		}
		rounds = led
	}
}

// pruneGrown prunes a partition if it has grown by enough since its last prune.
func (s *Shares) pruneGrown(index int32, r *round) {
	t := s.Image().Topic(SharesTopic)
	if t == nil {
		return
	}
	part, err := s.opt.Replicas.Partition(t.ID, index)
	if err != nil {
		return
	}
	_, epoch := part.Leader()
	size := part.Log().Size()
	r.size = min(r.size, size) // segments were deleted meanwhile
	if r.epoch == epoch && size-r.size < max(s.opt.PruneBytes, pruneGrowth*r.needs) {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, pruneTime)
	defer cancel()
	pruned, err := s.pruneOnce(ctx, index, part)
	if err != nil {
		if s.ctx.Err() == nil && !errors.Is(err, coordinator.ErrLoading) && !errors.Is(err, coordinator.ErrNotCoordinator) {
			s.opt.Logger.Warn("a partition of "+SharesTopic+" cannot be pruned now, trying again", zap.Int32("partition", index),
				zap.Error(err))
		}
		return
	}
	s.sayPruned(index, epoch, r, pruned.Why)
	*r = round{epoch, size, pruned.Bytes, pruned.Why}
}

// sayPruned logs once in a leader epoch why a partition is not pruned: it grows without a bound.
func (s *Shares) sayPruned(index, epoch int32, r *round, why error) {
	switch {
	case why != nil && (r.epoch != epoch || !errors.Is(why, r.why)):
		s.opt.Logger.Warn("a partition of "+SharesTopic+" is not pruned, and grows", zap.Int32("partition", index),
			zap.Int64("bytes", r.size), zap.Error(why))
	case why == nil && r.why != nil:
		s.opt.Logger.Info("a partition of "+SharesTopic+" is pruned again", zap.Int32("partition", index))
	}
}

// pruneOnce deletes what a load of a partition does not need. The first prune after a load deletes
// nothing.
func (s *Shares) pruneOnce(ctx context.Context, index int32, part *replica.Partition) (sharestate.Pruned, error) {
	// The log end is read before the event is submitted: all that the shard has not emitted then
	// comes after it.
	answers, err := collect[sharestate.Pruned](ctx, s.Service, []int32{index}, sharestate.Prune{End: part.Ends().LogEnd})
	if err != nil {
		return sharestate.Pruned{}, err
	}
	pruned := answers[0]
	if pruned.To > part.Ends().LogStart {
		_, err = part.DeleteRecords(ctx, pruned.To)
	}
	return pruned, err
}
