package brokers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/testing/check"
	"github.com/chronik-io/chronik/internal/testing/shareload"
)

// letters is the topic of dead letters of one of the share groups.
const letters = "dlq.orders"

// longestShared bounds the name of a group that has configs: their key in the metadata has 16 bytes
// more, and at most 1,024.
const longestShared = protocol.MaxName - 16

// shares are share groups. Their members work until all records are finished, and longer than other
// clients.
type shares struct {
	groups []*shareload.Group
	starts map[*shareload.Group]map[shareload.Partition]int64 // in the end
	copies int
	work   sync.WaitGroup
	ctx    context.Context
	stop   context.CancelFunc
}

// newShares creates the topic of dead letters, and configures the groups.
func (c *clients) newShares() {
	s, w := &c.shares, c.w
	s.ctx, s.stop = context.WithCancel(context.Background())
	w.Cleanup(s.stop)
	s.starts = map[*shareload.Group]map[shareload.Partition]int64{}
	c.create(letters, 2, 3, "errors.deadletterqueue.group.enable=true")
	for i, g := range []*shareload.Group{
		{Name: w.called("workers", longestShared), Topics: []string{topic, w.moving()}},
		{Name: w.called("rejecting", longestShared), Topics: []string{topic}, Letters: letters},
	} {
		g.Client = func() (*kgo.Client, error) { return w.client(w.direct()), nil }
		g.Seed, g.Lock, g.Life = w.seed<<8+uint64(i), 4*time.Second, 15*time.Second
		g.Judges = map[shareload.Partition]*check.Share{}
		for _, p := range c.parts {
			if slices.Contains(g.Topics, p.topic) {
				judge := &check.Share{Limit: shareload.Limit, Letters: g.Letters != ""}
				g.Judges[shareload.Partition{Topic: p.topic, Index: p.index}] = judge
			}
		}
		var err error
		if until(patience, func() bool {
			return c.try(func(ctx context.Context) bool { err = g.Configure(ctx, c.admin); return err == nil })
		}) != nil {
			w.problem("group %.20s is never configured: %v", g.Name, err)
		}
		s.groups = append(s.groups, g)
	}
}

// start starts three members of each group.
func (s *shares) start() {
	for _, g := range s.groups {
		for i := range uint64(3) {
			s.work.Go(func() { g.Work(s.ctx, i) })
		}
	}
}

// lose notes that a partition may have lost records.
func (s *shares) lose(topic string, index, epoch int32) {
	for _, g := range s.groups {
		for p, judge := range g.Judges {
			switch {
			case topic == "__share_group_state":
				judge.LoseState()
			case topic == g.Letters:
				judge.LoseCopies()
			case p.Topic == topic && p.Index == index:
				judge.LoseRecords(epoch)
			}
		}
	}
}

// finishShares lets the members finish what is left, and stops them. Nothing may be produced
// meanwhile.
func (c *clients) finishShares() {
	s, a := &c.shares, kadm.NewClient(c.admin)
	defer s.work.Wait()
	defer s.stop()
	if len(c.w.wrong()) > 0 {
		return
	}
	c.w.note("share groups finish")
	for _, g := range s.groups {
		g.Finish()
	}
	for _, g := range s.groups {
		why := ""
		if until(patience, func() bool {
			return c.try(func(ctx context.Context) bool { s.starts[g], why = g.Unfinished(ctx, a); return why == "" })
		}) != nil {
			c.w.problem("group %.20s does not finish: %s", g.Name, why)
		}
	}
}

// judgeShares judges what the members of share groups saw.
func (c *clients) judgeShares() {
	c.readLetters()
	for _, g := range c.shares.groups {
		for _, p := range c.parts {
			judge := g.Judges[shareload.Partition{Topic: p.topic, Index: p.index}]
			if judge == nil {
				continue
			}
			if c.w.wasShort("__share_group_state", fmt.Sprintf("%s-%d", p.topic, p.index)) {
				judge.LeaderWasShort()
			}
			for i, problem := range judge.Problems(p.final, c.shares.starts[g][shareload.Partition{Topic: p.topic, Index: p.index}]) {
				if i == 10 {
					break
				}
				c.w.problem("group %.20s: %v: %s", g.Name, p, problem)
			}
		}
	}
}

// readLetters tells the judges of all dead letters.
func (c *clients) readLetters() {
	cl := c.w.client(c.w.direct(), kgo.ConsumeTopics(letters), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	var ends kadm.ListedOffsets
	var err error
	if until(patience, func() bool {
		return c.try(func(ctx context.Context) bool {
			if ends, err = kadm.NewClient(cl).ListEndOffsets(ctx, letters); err == nil {
				err = ends.Error()
			}
			return err == nil
		})
	}) != nil {
		c.w.problem("%s has no end: %v", letters, err)
		return
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	within, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for left > 0 && within.Err() == nil {
		for _, r := range cl.PollFetches(within).Records() {
			left--
			c.shares.copies++
			for _, g := range c.shares.groups {
				if g.Letters == "" {
					continue
				}
				if err := g.Copied(r); err != nil {
					c.w.problem("%s: %v", letters, err)
				}
			}
		}
	}
	if left > 0 {
		c.w.problem("%s: %d records are not read", letters, left)
	}
}
