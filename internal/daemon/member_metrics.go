package daemon

import (
	"time"

	"github.com/chronik-io/chronik/internal/daemon/observe"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metrics"
)

// observeCluster registers the metrics of a member of a cluster. It must be called before the
// applier starts.
func (b *Broker) observeCluster(r *components) error {
	if r.member == nil {
		return nil
	}
	c := &observe.Cluster{
		Self: r.conf.NodeID, Image: r.applier.Image, Member: r.memberMetrics,
		Elections: metrics.NewElections(b.reg), ISRChanges: metrics.NewISRChanges(b.reg),
	}
	r.applier.Subscribe("cluster metrics", c.Follow)
	b.watchCluster(r)
	b.health.Add(func(f *checks.Facts) { // after the source that sets the other fields
		self, _ := r.applier.Image().Broker(r.conf.NodeID)
		f.Metadata.LostVote = membership.LostVote(&self, r.member.Store().Voters()) != 0
	})
	return metrics.RegisterCluster(b.reg, c.Metrics)
}

// memberMetrics sets what the metadata do not show. It does not wait for the metadata store.
func (r *components) memberMetrics(m *metrics.Cluster) {
	w := r.member.Watched()
	m.Term, m.Commit, m.Leader, m.Leads = w.Term, w.Commit, w.Leader != 0, w.Leader == w.Member && w.Ready
	for _, x := range w.Members {
		if x.Voter {
			m.Voters++
		}
	}
	if a := r.member.Agent(); a != nil {
		m.LeaseAge = max(0, r.conf.Cluster.Session-a.LeaseLeft()).Seconds()
		_, leader, _ := a.State()
		m.Skew = leader.Ahead.Seconds()
	}
	m.Lags = make(map[int32]metrics.FollowerLag)
	for broker, lag := range r.replicas.Lags() {
		m.Lags[broker] = metrics.FollowerLag{Records: lag.Records, Seconds: lag.Longest.Round(time.Millisecond).Seconds()}
	}
	m.Stopped = map[string]int{"ahead": 0, "diverged": 0}
	for _, x := range r.member.streams.Stopped() {
		if x.Ahead {
			m.Stopped["ahead"]++
		} else {
			m.Stopped["diverged"]++
		}
	}
	m.Streams = metrics.Streams(r.member.streams.Stats())
}
