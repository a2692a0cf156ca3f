package daemon

import (
	"time"

	"github.com/chronik-io/chronik/internal/daemon/observe"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/membership"
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
	r.cluster.Member = func(img *metadata.Image, x *view.Cluster) { b.describeMember(r, img, x) }
	r.cluster.Elections, r.cluster.ISRChanges = metrics.NewElections(b.reg), metrics.NewISRChanges(b.reg)
	r.applier.Subscribe("cluster", r.cluster.Follow)
	b.health.Add(r.cluster.Facts)
	b.health.Add(func(f *checks.Facts) { // after the source that sets the other fields
		self, _ := r.applier.Image().Broker(r.conf.NodeID)
		f.Metadata.LostVote = membership.LostVote(&self, r.member.Store().Voters()) != 0
	})
	return metrics.RegisterCluster(b.reg, r.cluster.View)
}

// describeMember sets what the metadata do not show. It does not wait for the metadata store.
func (b *Broker) describeMember(r *components, img *metadata.Image, x *view.Cluster) {
	w := r.member.Watched()
	x.Seeds, x.Own = len(r.conf.Cluster.Seeds), b.version
	q := &x.Quorum
	q.Leader, q.Term, q.Commit, q.Leads = -1, w.Term, w.Commit, w.Leader == w.Member && w.Ready
	q.Unreachable, q.Orphans = r.member.Unreachable(img, w.Members)
	q.Hanging = time.Since(w.At)
	if w.Leader == 0 {
		q.NoLeader = max(time.Since(w.Led), 1)
	}
	for _, m := range w.Members {
		if m.Voter {
			q.Voters++
		}
	}
	for _, broker := range img.Brokers() {
		if broker.Member == w.Leader && w.Leader != 0 {
			q.Leader = broker.ID
		}
	}
	if a := r.member.Agent(); a != nil {
		left := a.LeaseLeft()
		x.LeaseAge, x.NoLease = max(0, r.conf.Cluster.Session-left), max(0, -left)
		state, leader, answered := a.State()
		if answered {
			x.State = state.String()
		}
		x.Skew, x.Version, x.Stale = leader.Ahead, leader.Version, leader.Behind
	}
	for _, stopped := range r.member.streams.Stopped() { // sorted by leader
		last := len(x.Stopped) - 1
		if last < 0 || x.Stopped[last].Leader != stopped.Leader || x.Stopped[last].Ahead != stopped.Ahead {
			x.Stopped = append(x.Stopped, view.Stopped{Leader: stopped.Leader, Ahead: stopped.Ahead})
			last++
		}
		id := stopped.Partition.Log().ID()
		x.Stopped[last].Add(stopped.Partition.Log().Topic(), id.Partition)
	}
	x.Streams = view.Streams(r.member.streams.Stats())
}
