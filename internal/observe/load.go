package observe

import (
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/metrics"
)

// Load returns what the broker does, from its metrics.
func Load(n *metrics.Network, r *metrics.Requests, s *metrics.Storage, connections int) *health.Load {
	l := &health.Load{Connections: connections, Requests: metrics.Total(r.Count), BytesIn: metrics.Total(n.BytesIn),
		BytesOut: metrics.Total(n.BytesOut)}
	for _, syncs := range metrics.Distributions(s.SyncSeconds) {
		l.Syncs += float64(syncs.Count)
		l.SyncSeconds += syncs.Sum
	}
	l.CPUSeconds, l.MemoryBytes = metrics.Use()
	return l
}
