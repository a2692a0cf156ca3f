package cluster

import (
	"errors"
	"time"

	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/view"
)

// Describe sets what the metadata does not show. version is that of this broker. It does not wait
// for the metadata store.
func (s *Streams) Describe(img *metadata.Image, version string, x *view.Cluster) {
	c := s.cluster
	w := c.Watched()
	x.Seeds, x.WrongSeeds, x.Own = len(c.o.Conf.Seeds), c.book.wrongSeeds(), version
	q := &x.Quorum
	q.Leader, q.Term, q.Commit, q.Leads = -1, w.Term, w.Commit, w.Leader == w.Member && w.Ready
	c.describeVoters(img, w.Members, q)
	if wait := c.votersWait.Load(); wait != nil {
		q.Waits, q.Fails, q.Differ, q.Waiting = wait.why, wait.fails, wait.differ, time.Since(wait.since)
	}
	q.Hanging = time.Since(w.At)
	if err := c.store.Failed(); err != nil {
		q.Failed = err.Error()
	}
	if w.Leader == 0 {
		q.NoLeader = max(time.Since(w.Led), 1)
	}
	for _, broker := range img.Brokers() {
		if broker.Member == w.Leader && w.Leader != 0 {
			q.Leader = broker.ID
		}
	}
	if a := c.Agent(); a != nil {
		left := a.LeaseLeft()
		x.LeaseAge, x.NoLease = max(0, c.o.Conf.Session-left), max(0, -left)
		state, leader, answered := a.State()
		if answered {
			x.State = state.String()
		}
		x.Skew, x.Version, x.Stale, x.Shunned = leader.Ahead, leader.Version, leader.Behind, leader.Shunned
	}
	for _, stopped := range s.Stopped() { // sorted by leader
		last := len(x.Stopped) - 1
		if last < 0 || x.Stopped[last].Leader != stopped.Leader || x.Stopped[last].Ahead != stopped.Ahead {
			x.Stopped = append(x.Stopped, view.Stopped{Leader: stopped.Leader, Ahead: stopped.Ahead})
			last++
		}
		id := stopped.Partition.Log().ID()
		x.Stopped[last].Add(stopped.Partition.Log().Topic(), id.Partition)
	}
	x.Unreached, x.Session, x.Streams = c.unreached(), c.o.Conf.Session, s.Stats()
}

// LostVote reports whether an earlier metadata directory of this broker still has a vote; see
// membership.LostVote.
func (c *Cluster) LostVote(self *metadata.Broker) bool {
	return membership.LostVote(self, c.store.Voters()) != 0
}

// Refused reports whether an error means that this broker can't be a member of its cluster.
func Refused(err error) bool { return errors.Is(err, membership.ErrRefused) }
