package brokers

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consume runs one member of a group after the other.
func (c *clients) consume(seed uint64) {
	random := c.random(seed)
	for c.pace(random, 2*time.Second) {
		within, cancel := context.WithTimeout(c.ctx, 3*time.Second+time.Duration(random.Int64N(int64(15*time.Second))))
		c.member(within, rack(random.Int32N(c.w.size()+1))) // of rack 0 is no broker: it reads from leaders
		cancel()
	}
}

// member consumes and commits as one member of the group until ctx ends. It reads from the replicas
// of its rack (KIP-392).
func (c *clients) member(ctx context.Context, near string) {
	acked := map[*partition]int64{} // when it asked for the offset of a partition whose first record it waits for
	cl := c.w.client(kgo.ConsumerGroup(c.w.readers()), kgo.ConsumeTopics(topic), kgo.Rack(near),
		kgo.RecheckPreferredReplicaInterval(2*time.Second), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.Balancers(kgo.RangeBalancer()), kgo.SessionTimeout(6*time.Second), kgo.RebalanceTimeout(10*time.Second),
		kgo.HeartbeatInterval(time.Second), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			for _, index := range assigned[topic] {
				p := c.part(index)
				acked[p] = p.group.Acked() // the client asks for its offset when this returns
			}
		}))
	defer cl.CloseAllowingRebalance()
	commits := c.w.client(kgo.RequestRetries(0)) // an attempt that was repeated may still take effect
	defer commits.Close()
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, time.Second)
		fetches := cl.PollRecords(within, 10)
		cancel()
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			if len(f.Records) == 0 {
				return
			}
			p := c.part(f.Partition)
			if was, first := acked[p]; first {
				p.group.Begun(f.Records[0].Offset, was)
				delete(acked, p)
			}
			for _, r := range f.Records {
				p.group.Consumed(r.Offset)
			}
			c.mu.Lock()
			c.consumed += len(f.Records)
			c.mu.Unlock()
			c.commitAs(ctx, cl, commits, p, f.Records[len(f.Records)-1].Offset+1)
		})
		cl.AllowRebalance()
	}
}

// part returns a partition of the topic.
func (c *clients) part(index int32) *partition {
	for _, p := range c.parts {
		if p.topic == topic && p.index == index {
			return p
		}
	}
	c.w.problem("partition %d of %s was assigned", index, topic)
	return c.parts[0]
}

// commitAs commits an offset in the name of a member.
func (c *clients) commitAs(ctx context.Context, member, cl *kgo.Client, p *partition, offset int64) {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group = c.w.readers()
	q.MemberID, q.Generation = member.GroupMetadata()
	t, o := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	t.Topic, t.TopicID, o.Partition, o.Offset = p.topic, p.id, p.index, offset
	t.Partitions = append(t.Partitions, o)
	q.Topics = append(q.Topics, t)
	within, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	acked := p.group.Committing(q.Generation, offset)
	resp, err := cl.Request(within, q)
	if err != nil {
		return
	}
	if r := resp.(*kmsg.OffsetCommitResponse); len(r.Topics) == 1 && len(r.Topics[0].Partitions) == 1 &&
		kerr.ErrorForCode(r.Topics[0].Partitions[0].ErrorCode) == nil {
		acked()
	}
}

// compareReaders judges what the members saw. It reports whether a broker has answered.
func (c *clients) compareReaders(ctx context.Context, a *kadm.Client) bool {
	all, err := a.FetchOffsets(ctx, c.w.readers())
	if err != nil {
		return false
	}
	stored := map[*partition]int64{}
	for _, p := range c.parts {
		o, ok := all.Lookup(p.topic, p.index)
		if ok && o.Err != nil {
			return false
		}
		if ok {
			stored[p] = max(o.At, 0) // -1 if there is none
		}
	}
	for _, p := range c.parts {
		for _, problem := range p.group.Problems(p.final, stored[p]) {
			c.w.problem("group %s: %v: %s", c.w.readers(), p, problem)
		}
	}
	return true
}
