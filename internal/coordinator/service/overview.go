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
	bounds := c.newBounds()
	for i := range offsets {
		if g, ok := at[offsets[i].Group]; ok {
			all.List[g].Add(bounds.of(&offsets[i]))
		}
	}
	return all
}

// bound is where a log begins, and its high watermark.
type bound struct{ start, end int64 }

// bounds looks up the bound of each partition once.
type bounds struct {
	*Groups
	img   *metadata.Image
	known map[metadata.TopicPartition]bound
}

func (c *Groups) newBounds() *bounds {
	return &bounds{c, c.Image(), map[metadata.TopicPartition]bound{}}
}

// of returns a committed offset with the end of its partition, and where the log of that begins.
func (h *bounds) of(o *group.CommittedOffset) (x view.GroupOffset, start int64) {
	x = view.GroupOffset{Topic: o.Topic, Partition: o.Partition, Committed: o.Offset, End: -1}
	t := h.img.Topic(o.Topic)
	if t == nil {
		return x, -1
	}
	tp := metadata.TopicPartition{Topic: t.ID, Partition: o.Partition}
	b, known := h.known[tp]
	if !known {
		b = h.boundsOf(tp)
		h.known[tp] = b
	}
	x.End = b.end
	return x, b.start
}
