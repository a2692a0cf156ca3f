package service

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/view"
)

// SharePosition is where a share group is in a partition.
type SharePosition struct {
	sharestate.Summary
	// Led is the share partition on its leader, if that was asked for. Its error leaves the rest
	// valid.
	Led sharestate.Led
}

// Lag returns how many records the group has to finish, -1 if that is not known: its start is not
// decided, or the leader was not asked or did not answer.
func (p *SharePosition) Lag() int64 {
	if p.Err != nil || p.Start < 0 || p.Led.Err != nil {
		return -1
	}
	return view.LagBetween(p.Start, int64(p.Complete), p.Led.LogStart, p.Led.High)
}

// ledTime bounds how long leaders are asked: a position without a lag is better than none.
const ledTime = 2 * time.Second

// SharePositions asks the share coordinators of all brokers for the positions of share partitions,
// and if led is true their leaders as well, for ledTime. It waits until ctx ends at the latest;
// what has no result by then has COORDINATOR_NOT_AVAILABLE. A state that does not exist is
// INVALID_REQUEST.
func (c *Groups) SharePositions(ctx context.Context, keys []format.Key, led bool) []SharePosition {
	all := make([]SharePosition, len(keys))
	states := c.opt.States
	if states == nil {
		for i := range all {
			all[i].Summary = sharestate.Summary{Err: kerr.InvalidRequest, Leader: -1, Start: -1}
		}
		return all
	}
	var work sync.WaitGroup
	work.Add(1)
	states.Summarize(ctx, keys, func(list []sharestate.Summary) {
		for i, s := range list {
			all[i].Summary = s
		}
		work.Done()
	})
	if !led {
		for i := range all {
			all[i].Led.Err = kerr.LeaderNotAvailable
		}
	} else {
		work.Add(1)
		short, cancel := context.WithTimeout(ctx, ledTime)
		defer cancel()
		states.Inspect(short, keys, func(list []sharestate.Led) {
			for i := range list {
				all[i].Led = list[i]
			}
			work.Done()
		})
	}
	work.Wait()
	return all
}

// AddPositions adds the positions of share groups to their views, sorted, as those of other groups
// are their committed offsets. It waits until ctx ends at the latest. Groups whose coordinator is
// another broker, or does not answer, stay as they are.
func (c *Groups) AddPositions(ctx context.Context, groups []*view.Group) {
	byShard := map[int32][]*view.Group{}
	for _, g := range groups {
		if shard, ok := c.Partition(g.ID); ok {
			byShard[shard] = append(byShard[shard], g)
		}
	}
	var keys []format.Key
	var names []string
	var of []*view.Group
	for shard, list := range byShard {
		event := group.ShareStates{}
		for _, g := range list {
			event.Groups = append(event.Groups, g.ID)
		}
		answers, err := collect[[]group.StatesOf](ctx, c.Service, []int32{shard}, event)
		if err != nil {
			continue
		}
		for i, states := range answers[0] {
			for _, t := range states.Topics {
				for _, p := range t.Partitions {
					keys = append(keys, format.Key{Group: list[i].ID, Topic: t.ID, Partition: p})
					names, of = append(names, t.Name), append(of, list[i])
				}
			}
		}
	}
	if len(keys) == 0 {
		return
	}
	for i, p := range c.SharePositions(ctx, keys, true) {
		of[i].AddShare(positionOf(names[i], keys[i].Partition, &p))
	}
}

func positionOf(topic string, partition int32, p *SharePosition) view.GroupOffset {
	o := view.GroupOffset{Topic: topic, Partition: partition, Committed: p.Start, End: -1, Lag: p.Lag(), Share: &view.SharePartition{}}
	if p.Err != nil {
		o.Share.Error = p.Err.Message
	}
	if p.Led.Err != nil {
		return o
	}
	o.End = p.Led.High
	l, counts := &p.Led, &p.Led.Counts
	o.Share.Loaded, o.Share.Acquired, o.Share.Available, o.Share.Archiving = l.Loaded, l.Acquired, l.Available, l.Archiving
	o.Share.Redelivered, o.Share.Archived = counts.Redelivered, counts.Archived()
	return o
}

// LedShares asks the leaders of a topic for the share partitions of a group. It reports false if
// there is no such topic. It waits until ctx ends at the latest.
func (c *Groups) LedShares(ctx context.Context, id, topic string) (view.LedShares, bool) {
	all := view.LedShares{Group: id, Topic: topic, Partitions: []view.LedShare{}}
	t := c.Image().Topic(topic)
	if t == nil || c.opt.States == nil {
		return all, t != nil
	}
	keys := make([]format.Key, t.Partitions.Len())
	for p := range keys {
		keys[p] = format.Key{Group: id, Topic: t.ID, Partition: int32(p)}
	}
	done := make(chan []sharestate.Led, 1)
	c.opt.States.Inspect(ctx, keys, func(list []sharestate.Led) { done <- list })
	for p, l := range <-done {
		x := view.LedShare{Partition: int32(p)}
		if l.Err != nil {
			x.Error = l.Err.Message
			all.Partitions = append(all.Partitions, x)
			continue
		}
		n := &l.Counts
		x.Loaded, x.HighWatermark, x.Start, x.End = l.Loaded, l.High, l.Start, l.End
		x.Acquired, x.Available, x.Archiving, x.Finished = l.Acquired, l.Available, l.Archiving, l.Finished
		x.Delivered, x.Redelivered, x.TimedOut, x.Archived = n.Delivered, n.Redelivered, n.Ended, n.Archived()
		x.Accepted, x.Released, x.Rejected = n.Accepted(), n.Released(), n.Rejected()
		all.Partitions = append(all.Partitions, x)
	}
	return all, true
}
