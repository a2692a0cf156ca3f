package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// eligible is which replicas of a partition outside the ISR may lead it (KIP-966), and which ones a
// reassignment adds and removes.
type eligible struct {
	elr  []int32
	last []int32 // the last replicas in sync, if there are no others

	adding, removing []int32
	least            int // min.insync.replicas; 0 if it is not known
}

// askEligible returns the eligible leader replicas of topics that have an impaired partition, and
// their reassignments; of other topics there are none. A broker without these APIs has none either.
func askEligible(ctx context.Context, cl *kgo.Client, topics []kadm.TopicDetail) (map[log]eligible, error) {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2000
	for _, t := range topics {
		for _, p := range t.Partitions {
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
				req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: t.Topic})
				break
			}
		}
	}
	all := map[log]eligible{}
	if len(req.Topics) > 0 {
		var names []string
		for _, t := range req.Topics {
			names = append(names, t.Topic)
		}
		moves, err := app.Moves(ctx, kadm.NewClient(cl), names...)
		if err != nil {
			return nil, err
		}
		for _, m := range moves.Sorted() {
			all[log{m.Topic, m.Partition}] = eligible{adding: m.AddingReplicas, removing: m.RemovingReplicas}
		}
	}
	for len(req.Topics) > 0 {
		resp, err := req.RequestWith(ctx, cl)
		if app.IsUnsupported(err) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if t.Topic != nil {
					x := all[log{*t.Topic, p.Partition}]
					x.elr, x.last = p.EligibleLeaderReplicas, p.LastKnownELR
					all[log{*t.Topic, p.Partition}] = x
				}
			}
		}
		next := resp.NextCursor
		if next == nil {
			break
		}
		if c := req.Cursor; c != nil && c.Topic == next.Topic && c.Partition >= next.Partition {
			return nil, fmt.Errorf("the pages of topic %s do not advance", next.Topic)
		}
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: next.Topic, Partition: next.Partition}
	}
	return all, nil
}

// state returns why a partition has no leader or too few replicas in sync, "" if it has all. err is
// the broker's own reason.
func state(p *partition, at eligible, err error) string {
	if errors.Is(err, kerr.ListenerNotFound) {
		return "its leader has no listener of the name of the one that was dialed"
	}
	if p.Leader < 0 {
		return "offline: " + awaited(p, at)
	}
	var down, behind []int32
	for _, r := range p.Replicas {
		switch {
		case slices.Contains(p.ISR, r):
		case slices.Contains(p.Offline, r):
			down = append(down, r)
		case slices.Contains(at.adding, r):
		default:
			behind = append(behind, r)
		}
	}
	var why []string
	if len(at.adding) > 0 {
		why = append(why, "copying to "+brokersText(at.adding))
	}
	if len(at.removing) > 0 {
		why = append(why, "moving away from "+brokersText(at.removing))
	}
	if len(down) > 0 {
		why = append(why, "replica offline on "+brokersText(down))
	}
	if len(behind) > 0 {
		why = append(why, "replica not in sync on "+brokersText(behind))
	}
	if len(at.elr) > 0 || len(p.ISR) < min(at.least, len(p.Replicas)-len(at.adding)) { // chronik needs no more than there are
		why = append(why, "fewer in sync than min.insync.replicas")
	}
	return strings.Join(why, ", ")
}

// awaited returns what an offline partition waits for.
func awaited(p *partition, at eligible) string {
	could := slices.Concat(p.ISR, at.elr)
	switch {
	case len(could) > 0:
		return "it waits for " + brokersText(could)
	case len(at.last) > 0:
		return "no replica has all acknowledged records; the last one in sync was on " + brokersText(at.last)
	}
	return "it has no replica in sync"
}

func brokersText(ids []int32) string {
	if len(ids) == 1 {
		return "broker " + text.Numbers(ids)
	}
	return "brokers " + text.Numbers(ids)
}
