package daemon

import (
	"slices"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/replica"
)

// partitionsOf shows the states of this broker's partitions to metrics.
func partitionsOf(r *rooms) func() metrics.Partitions {
	return func() (n metrics.Partitions) {
		n.Failed = len(r.unmade())
		img, self := r.applier.Image(), r.conf.NodeID
		for t := range img.Topics() {
			for i, p := range t.Partitions.All() {
				if !slices.Contains(p.Replicas, self) {
					continue
				}
				r.countPartition(&n, img, t, i, p)
			}
		}
		for _, l := range r.storage.Logs() {
			if l.Damaged() != nil {
				n.Damaged++
			}
		}
		return n
	}
}

func (r *rooms) countPartition(n *metrics.Partitions, img *metadata.Image, t *metadata.Topic, index int32, p *metadata.Partition) {
	if r.unavailable(t, index) != nil {
		n.Unavailable++
	}
	if p.Leader != r.conf.NodeID {
		return
	}
	n.Led++
	if len(p.ISR) < len(p.Replicas) {
		n.UnderReplicated++
		if len(p.ISR) < min(int(r.settings.Of(img, t).Conf.MinInSyncReplicas), len(p.Replicas)) {
			n.UnderMinISR++
		}
	}
}

// unmade returns the partitions whose logs could not be made and are tried again.
func (r *rooms) unmade() []replica.Failure {
	return slices.DeleteFunc(r.replicas.Failed(), func(f replica.Failure) bool { return f.NextTry.IsZero() })
}

// unavailable says why a partition of this broker can't be used; nil if it can.
func (r *rooms) unavailable(t *metadata.Topic, index int32) error {
	p, err := r.replicas.Partition(t.ID, index)
	if err != nil {
		return err
	}
	return p.Log().Offline()
}

// eachUnavailable calls yield for each partition of this broker that can't be used.
func (r *rooms) eachUnavailable(img *metadata.Image, yield func(t *metadata.Topic, index int32, why error)) {
	for t := range img.Topics() {
		for i, p := range t.Partitions.All() {
			if !slices.Contains(p.Replicas, r.conf.NodeID) {
				continue
			}
			if err := r.unavailable(t, i); err != nil {
				yield(t, i, err)
			}
		}
	}
}
