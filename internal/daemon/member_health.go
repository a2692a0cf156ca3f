package daemon

import (
	"time"

	"github.com/chronik-io/chronik/internal/daemon/observe"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
)

// watchCluster adds what this broker knows of its cluster to the facts of the checks. It must be
// called before the applier starts.
func (b *Broker) watchCluster(r *components) {
	c := &observe.ClusterFacts{
		Image: r.applier.Image, MinISR: r.settings.MinISR,
		Member: func(img *metadata.Image, x *checks.Cluster) { b.memberFacts(r, img, x) },
	}
	r.applier.Subscribe("cluster findings", c.Follow)
	b.health.Add(c.Source)
}

// memberFacts sets what the metadata do not show. It does not wait for the metadata store.
func (b *Broker) memberFacts(r *components, img *metadata.Image, x *checks.Cluster) {
	w := r.member.Watched()
	x.Seeds, x.Own = len(r.conf.Cluster.Seeds), b.version
	x.Quorum.Leader = -1
	x.Quorum.Unreachable, x.Quorum.Orphans = r.member.Unreachable(img, w.Members)
	x.Quorum.Hanging = time.Since(w.At)
	if w.Leader == 0 {
		x.Quorum.NoLeader = time.Since(w.Led)
	}
	voters := map[uint64]bool{}
	for _, m := range w.Members {
		if m.Voter {
			voters[m.Member] = true
		}
	}
	x.Quorum.Voters = len(voters)
	for _, broker := range img.Brokers() {
		if broker.Member == w.Leader && w.Leader != 0 {
			x.Quorum.Leader = broker.ID
		}
	}
	a := r.member.Agent()
	state, leader, answered := a.State()
	if answered {
		x.State = state.String()
	}
	x.NoLease, x.Skew, x.Version = max(0, -a.LeaseLeft()), leader.Ahead, leader.Version
	x.Stale = leader.Behind
	for _, stopped := range r.member.streams.Stopped() { // sorted by leader
		last := len(x.Stopped) - 1
		if last < 0 || x.Stopped[last].Leader != stopped.Leader || x.Stopped[last].Ahead != stopped.Ahead {
			x.Stopped = append(x.Stopped, checks.Stopped{Leader: stopped.Leader, Ahead: stopped.Ahead})
			last++
		}
		id := stopped.Partition.Log().ID()
		x.Stopped[last].Add(stopped.Partition.Log().Topic(), id.Partition)
	}
}
