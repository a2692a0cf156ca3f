package observe

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
)

// Cluster reports what a member of a cluster sees of it.
type Cluster struct {
	Self  int32
	Image func() *metadata.Image
	// Member sets what the metadata do not show. It must not wait for the metadata store.
	Member func(*metrics.Cluster)
	// Elections counts new leader epochs by where the leader comes from, and ISRChanges changes of
	// the ISRs of partitions that this broker leads, by kind.
	Elections, ISRChanges *prometheus.CounterVec
}

// Metrics counts brokers and partitions by state.
func (c *Cluster) Metrics() metrics.Cluster {
	img := c.Image()
	m := metrics.Cluster{Applied: img.Version(), ISR: map[int]int{}, Brokers: map[string]int{}}
	c.Member(&m)
	for s := metadata.Fenced; s <= metadata.Drained; s++ {
		m.Brokers[s.String()] = 0
	}
	for _, b := range img.Brokers() {
		s, _ := img.Liveness(b.ID)
		m.Brokers[s.String()]++
	}
	for t := range img.Topics() {
		for _, p := range t.Partitions.All() {
			if len(p.Adding)+len(p.Removing) > 0 {
				m.Moving++
			}
			switch p.Leader {
			case -1:
				m.Leaderless++
			case c.Self:
				m.ISR[len(p.ISR)]++
				if len(p.ELR) > 0 {
					m.Eligible++
				}
			}
		}
	}
	return m
}

// Follow is a metadata.Subscriber that counts new leader epochs, and changes of the ISRs of led
// partitions. Changes between two images count as one. It never blocks.
func (c *Cluster) Follow(_ context.Context, _, _ *metadata.Image, d *metadata.Delta) error {
	for _, t := range d.Changed {
		for _, i := range t.Partitions {
			before, now := t.Prev.Partitions.At(i), t.Next.Partitions.At(i)
			if before == nil || now == nil {
				continue
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
