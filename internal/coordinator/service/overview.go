package service

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/view"
)

// Overview asks all shards. It omits those that are loading or do not answer before ctx ends.
func (c *Groups) Overview(ctx context.Context) view.Groups {
	all := view.Groups{Shards: c.States()}
	at := map[string]int{} // in all.List, by id
	listed, _ := Collect[[]kmsg.ListGroupsResponseGroup](ctx, c.Service, group.List{})
	for _, g := range slices.Concat(listed...) {
		at[g.Group] = len(all.List)
		all.List = append(all.List, view.Group{ID: g.Group, Kind: g.GroupType, State: g.GroupState})
	}
	committed, _ := Collect[[]group.CommittedOffset](ctx, c.Service, group.Committed{})
	offsets := slices.Concat(committed...)
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
func (h *highs) of(o *group.CommittedOffset) view.GroupOffset {
	x := view.GroupOffset{Topic: o.Topic, Partition: o.Partition, Committed: o.Offset, End: -1}
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
