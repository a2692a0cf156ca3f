package service

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
)

// GroupOverview lists the current groups and their lag.
type GroupOverview struct {
	Groups []kmsg.ListGroupsResponseGroup
	Lags   []GroupLag
}

// GroupLag is how far a group is behind in a partition.
type GroupLag struct {
	Group, Topic string
	Partition    int32
	// Records is the high watermark less the committed offset. Partitions led by other brokers are
	// omitted.
	Records int64
}

// Overview asks all shards. It omits those that are loading or do not answer before ctx ends.
func (c *Groups) Overview(ctx context.Context) GroupOverview {
	var mu sync.Mutex
	var all GroupOverview
	var committed []group.CommittedOffset
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
			all.Groups = append(all.Groups, list...)
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
	known, offsets := GroupOverview{Groups: all.Groups}, committed
	mu.Unlock()
	known.Lags = c.lags(offsets)
	return known
}

// lags compares committed offsets with the partitions that this broker leads.
func (c *Groups) lags(offsets []group.CommittedOffset) []GroupLag {
	img := c.Image()
	high := map[metadata.TopicPartition]int64{}
	var lags []GroupLag
	for _, o := range offsets {
		t := img.Topic(o.Topic)
		if t == nil {
			continue
		}
		tp := metadata.TopicPartition{Topic: t.ID, Partition: o.Partition}
		end, known := high[tp]
		if !known {
			end = c.highWatermark(tp)
			high[tp] = end
		}
		if end >= 0 {
			lags = append(lags, GroupLag{Group: o.Group, Topic: o.Topic, Partition: o.Partition, Records: max(end-o.Offset, 0)})
		}
	}
	return lags
}
