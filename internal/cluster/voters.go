package cluster

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
)

// Times of the changes of members.
const (
	votersEvery = time.Second
	changeTime  = 10 * time.Second
)

// keepVoters adapts the members of the metadata group to the registered brokers, while this node
// leads it, until Close.
func (c *Cluster) keepVoters(image func() *metadata.Image) {
	term := uint64(0)
	tick := time.NewTicker(votersEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		role, _ := c.store.Leadership()
		if role.Leader != c.self.ID || !role.Ready {
			c.votersWait.Store(nil)
			continue
		}
		if role.Term != term {
			term = role.Term
			c.serve.ForgetWishes()
			continue
		}
		img := image()
		next := membership.NextChange(c.members(img), len(c.o.Conf.Seeds))
		c.setVotersWait(img, next)
		if err := c.change(next); err != nil {
			c.o.Log.Debug("members of the metadata group not changed", zap.Error(err))
		}
	}
}

// votersWait is why the voters do not become those of cluster.seeds.
type votersWait struct {
	why    string
	differ []int32 // brokers with other cluster.seeds than this one, by id
	since  time.Time
}

// setVotersWait notes why the voters do not change, for Describe, and logs it once.
func (c *Cluster) setVotersWait(img *metadata.Image, next membership.Change) {
	if next.Waits == "" {
		c.votersWait.Store(nil)
		return
	}
	w := &votersWait{why: next.Waits, since: time.Now()}
	for _, b := range img.Brokers() {
		if slices.Contains(next.Differ, b.Member) {
			w.differ = append(w.differ, b.ID)
		}
	}
	slices.Sort(w.differ)
	if last := c.votersWait.Load(); last != nil && last.why == w.why {
		w.since = last.since
	} else {
		c.o.Log.Named("membership").Warn("the voters of the metadata differ from cluster.seeds", zap.String("waits", w.why),
			zap.Int32s("differ", w.differ))
	}
	c.votersWait.Store(w)
}

// members returns the members of the group, as this node knows them as the leader.
func (c *Cluster) members(img *metadata.Image) (list []membership.GroupMember) {
	registered, successor := map[uint64]bool{}, map[uint64]uint64{}
	for _, b := range img.Brokers() {
		registered[b.Member] = true
		for _, m := range b.Former {
			successor[m] = b.Member
		}
	}
	own := membership.SeedsHash(c.o.Conf.Seeds)
	for _, m := range c.store.Status(c.ctx).Members {
		wish := c.serve.Wish(m.Member)
		list = append(list, membership.GroupMember{
			ID: m.Member, Voter: m.Voter, Active: m.Active, Silent: m.Silent, Leader: m.Member == c.self.ID,
			Registered: registered[m.Member], Successor: successor[m.Member], WantsVote: wish.Vote,
			Agrees: wish.Seeds == own, Differs: wish.Seeds != own && wish.Seeds != "",
		})
	}
	return list
}

// wish is what this node's heartbeats say about votes.
func (c *Cluster) wish() membership.Wish {
	return membership.Wish{Vote: c.book.isSeed(), Seeds: membership.SeedsHash(c.o.Conf.Seeds)}
}

// change makes a change of members. What the group refuses now is decided again later.
func (c *Cluster) change(to membership.Change) error {
	ctx, cancel := context.WithTimeout(c.ctx, changeTime)
	defer cancel()
	switch log := c.o.Log.Named("membership"); {
	case len(to.Voters) > 0:
		if err := c.store.SetVoters(ctx, to.Voters...); err != nil {
			return err
		}
		log.Info("the brokers of cluster.seeds are the voters of the metadata now", zap.Uint64s("members", to.Voters))
	case len(to.Resign) > 0:
		log.Info("this broker leads the metadata and is not in cluster.seeds: it hands the leadership over")
		return c.store.Resign(ctx, to.Resign...)
	case to.Replace.Learner != 0:
		if err := c.store.Replace(ctx, to.Replace.Former, to.Replace.Learner); err != nil {
			return err
		}
		log.Warn("a member of the metadata group has lost its directory, another one votes in its place",
			zap.Uint64("former", to.Replace.Former), zap.Uint64("member", to.Replace.Learner))
	case to.Remove != 0:
		if err := c.store.Remove(ctx, to.Remove); err != nil {
			return err
		}
		log.Info("a member of the metadata group that has no broker was removed", zap.Uint64("member", to.Remove))
	}
	return nil
}
