package daemon

import (
	"github.com/chronik-io/chronik/internal/daemon/observe"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/view"
)

// observeCluster shows what this broker knows of its cluster. It must be called before the applier
// starts.
func (b *Broker) observeCluster(r *components) error {
	r.cluster = &observe.Cluster{Self: r.conf.NodeID, Image: r.applier.Image, MinISR: r.settings.MinISR}
	if !r.linked() {
		return metrics.RegisterPartitions(b.reg, r.cluster.View)
	}
	r.cluster.Lags = r.replicas.Lags
	r.cluster.Member = func(img *metadata.Image, x *view.Cluster) { r.member.streams.Describe(img, b.version, x) }
	r.cluster.Elections, r.cluster.ISRChanges = metrics.NewElections(b.reg), metrics.NewISRChanges(b.reg)
	r.applier.Subscribe("cluster", r.cluster.Follow)
	b.health.Add(r.cluster.Facts)
	b.health.Add(func(f *checks.Facts) { // after the source that sets the other fields
		self, _ := r.applier.Image().Broker(r.conf.NodeID)
		f.Metadata.LostVote = r.member.LostVote(&self)
	})
	return metrics.RegisterCluster(b.reg, r.cluster.View)
}
