package service

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
	views "github.com/chronik-io/chronik/internal/view"
)

// Overview asks all shards. It omits those that are loading or do not answer before ctx ends.
func (c *Groups) Overview(ctx context.Context) views.Groups {
	var mu sync.Mutex
	var listed []kmsg.ListGroupsResponseGroup
	var committed []group.CommittedOffset
	all := views.Groups{Shards: map[string]int{}}
	for _, s := range c.Stats() {
		all.Shards[s.State]++
	}
	done := make(chan struct{})
	shards := c.Partitions()
	left := 2 * len(shards)
	if left == 0 {
		return all
	}
	answered := func(answer any, _ error) {
		mu.Lock()
		defer mu.Unlock()
		switch list := answer.(type) {
		case []kmsg.ListGroupsResponseGroup:
			listed = append(listed, list...)
		case []group.CommittedOffset:
			committed = append(committed, list...)
		}
		if left--; left == 0 {
			close(done)
		}
	}
	for _, p := range shards {
		c.SubmitTo(p, group.List{}, answered)
		c.SubmitTo(p, group.Committed{}, answered)
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
	mu.Lock()
	known, offsets := listed, committed
	mu.Unlock()
	at := make(map[string]int, len(known)) // in all.List, by id
	for i := range known {
		g := &known[i]
		at[g.Group] = i
		all.List = append(all.List, views.Group{ID: g.Group, Kind: g.GroupType, State: g.GroupState})
	}
	high := c.newHighs()
	for i := range offsets {
		if g, ok := at[offsets[i].Group]; ok {
			all.List[g].Add(high.of(&offsets[i]))
		}
	}
	return all
}

// highs looks up the high watermark of each partition once.
type highs struct {
	*Groups
	img  *metadata.Image
	high map[metadata.TopicPartition]int64
}

func (c *Groups) newHighs() *highs { return &highs{c, c.Image(), map[metadata.TopicPartition]int64{}} }

// of returns a committed offset with the end of its partition.
func (h *highs) of(o *group.CommittedOffset) views.GroupOffset {
	x := views.GroupOffset{Topic: o.Topic, Partition: o.Partition, Committed: o.Offset, End: -1}
	if t := h.img.Topic(o.Topic); t != nil {
		tp := metadata.TopicPartition{Topic: t.ID, Partition: o.Partition}
		end, known := h.high[tp]
		if !known {
			end = h.highWatermark(tp)
			h.high[tp] = end
		}
		x.End = end
	}
	return x
}
