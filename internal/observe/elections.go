package observe

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
)

// Follow is a metadata.Subscriber that counts new leader epochs and changes of the ISRs of led
// partitions, and logs unclean elections: the controller that decided one may have ended before it
// knew. Changes between two images count as one. It never blocks.
func (c *Cluster) Follow(_ context.Context, _, next *metadata.Image, d *metadata.Delta) error {
	if c.Changed != nil && (d.Brokers || len(d.Liveness) > 0) {
		c.Changed(next.Version())
	}
	for _, t := range d.Created { // when the broker starts, all topics
		for i, p := range t.Partitions.All() {
			c.note(t, i, beforePresent(p))
		}
	}
	for _, t := range d.Changed {
		for _, i := range t.Partitions {
			before, now := t.Prev.Partitions.At(i), t.Next.Partitions.At(i)
			if before == nil || now == nil {
				continue
			}
			if !raised(before, now) {
				c.note(t.Next, i, before.Unclean)
			}
			if before.LeaderEpoch < now.LeaderEpoch {
				c.Elections.WithLabelValues(from(before, now)).Inc()
			}
			if now.Leader == c.Self && !slices.Equal(before.ISR, now.ISR) {
				c.ISRChanges.WithLabelValues(kind(before, now)).Inc()
			}
		}
	}
	return nil
}

// beforePresent returns the last epoch before the one in which the present leader came, of the
// earlier elections that a start finds. A sole replica that lost records leads in the epoch after
// that of the loss, both of which are written before its broker applies either.
func beforePresent(p *metadata.Partition) int32 {
	if len(p.Replicas) == 1 {
		return p.LeaderEpoch - 2
	}
	return p.LeaderEpoch - 1
}

// raised reports whether only the epoch of a leader was raised, which began uncleanly, and stays
// so. One that has lost records leads again in one of the next epochs, without a gap.
func raised(before, now *metadata.Partition) bool {
	return now.Leader >= 0 && before.Leader == now.Leader && now.PartitionEpoch == before.PartitionEpoch+1 &&
		metadata.Raised(before.LeaderEpoch, now.LeaderEpoch)
}

// note logs the unclean election of a partition if it is of a later epoch than
// before.
func (c *Cluster) note(t *metadata.Topic, i, before int32) {
	if p := t.Partitions.At(i); p.Unclean > max(before, 0) {
		c.Log.Error("unclean leader election: acknowledged records may be lost", zap.String("topic", t.Name),
			zap.String("id", metadata.FormatID(t.ID)), zap.Int32("partition", i), zap.Int32("epoch", p.Unclean),
			zap.Int32("leader", p.Leader))
	}
}

// kind returns how an ISR has changed.
func kind(before, now *metadata.Partition) string {
	if slices.ContainsFunc(before.ISR, func(b int32) bool { return !slices.Contains(now.ISR, b) }) {
		return "shrink"
	}
	return "expand"
}

// from returns where the leader of a new epoch comes from.
func from(before, now *metadata.Partition) string {
	switch {
	case now.Leader < 0:
		return "none"
	case now.Unclean == now.LeaderEpoch:
		return "unclean"
	case slices.Contains(before.ELR, now.Leader):
		return "elr"
	}
	return "isr"
}
