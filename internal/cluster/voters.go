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
	// failsAfter is how long a change must fail to be said: a member that is added, or was heard a
	// moment ago, makes the group refuse some at first.
	failsAfter = 5 * time.Second
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
			c.noVotersWait()
			continue
		}
		if role.Term != term {
			term = role.Term
			c.serve.ForgetWishes()
			continue
		}
		img := image()
		next := membership.NextChange(c.members(img), len(c.o.Conf.Seeds))
		c.setVotersWait(img, next, c.change(next))
	}
}

// votersWait is why the members of the metadata group are not as they must be.
type votersWait struct {
	why    string
	differ []int32 // brokers with other cluster.seeds than this one, by id
	fails  bool    // a change fails, with why
	since  time.Time
	said   bool
}

// setVotersWait notes why the members do not change, for Describe, and logs it once. failed is the
// error of the change.
func (c *Cluster) setVotersWait(img *metadata.Image, next membership.Change, failed error) {
	w := &votersWait{why: next.Waits, since: time.Now()}
	if failed != nil {
		w.why, w.fails = failed.Error(), true
	}
	if w.why == "" {
		c.noVotersWait()
		return
	}
	w.differ = brokersOf(img, next.Differ)
	if last := c.votersWait.Load(); last != nil && (last.why == w.why || last.fails && w.fails) {
		w.since, w.said = last.since, last.said && last.why == w.why
	}
	if !w.said && (!w.fails || time.Since(w.since) >= failsAfter) {
		w.said = true
		c.sayVotersWait(w, img, next)
	}
	c.votersWait.Store(w)
}

// sayVotersWait logs why the members do not change, and about which it is.
func (c *Cluster) sayVotersWait(w *votersWait, img *metadata.Image, next membership.Change) {
	if _, say := c.votersSaid.Failed(w.why, nil); !say { // reasons may alternate
		return
	}
	log := c.o.Log.Named("membership")
	if !w.fails {
		log.Warn("the voters of the metadata differ from cluster.seeds", zap.String("waits", w.why), zap.Int32s("differ", w.differ))
		return
	}
	about := slices.Concat(next.Voters, next.Resign)
	for _, m := range []uint64{next.Replace.Former, next.Replace.Learner, next.Remove} {
		if m != 0 {
			about = append(about, m)
		}
	}
	log.Warn("a change of the members of the metadata group fails; it is tried again every second", zap.Uint64s("members", about),
		zap.Int32s("brokers", brokersOf(img, about)), zap.String("error", w.why))
}

// noVotersWait notes that the members are as they must be, or that another node decides on them.
func (c *Cluster) noVotersWait() {
	c.votersWait.Store(nil)
	c.votersSaid.Ended("")
}

// brokersOf returns the brokers that are registered as one of the members, or were, by id.
func brokersOf(img *metadata.Image, members []uint64) (ids []int32) {
	for _, b := range img.Brokers() {
		if slices.ContainsFunc(members, func(m uint64) bool { return m == b.Member || slices.Contains(b.Former, m) }) {
			ids = append(ids, b.ID)
		}
	}
	slices.Sort(ids)
	return ids
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
