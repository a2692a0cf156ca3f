package hostile

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
)

// fetchAttacks make the broker hold records, waiting requests or sessions.
func fetchAttacks() []Attack {
	unread := func(name, what string, overTLS bool) Attack {
		return Attack{
			Name: name, Aim: "1,000 " + what + " ask for 50 MiB and read nothing",
			Holds: budget, Keeps: budget, Part: 5, TLS: overTLS, prepare: wideTopic,
			run: func(ctx context.Context, m *Attacker) error {
				return m.once(ctx, m.connections(1000), func(c *Conn, i int) error {
					req := fetchRequest(wide, 0, 50<<20)
					req.Topics[0].Partitions[0].FetchOffset = int64(i % wideBatches(m)) // each other memory
					return c.sendUnread(frame(req), 2)
				})
			},
		}
	}
	return []Attack{
		{
			Name: "parked-fetches", Aim: "8 fetches that name one partition 400,000 times each and wait for 5 minutes",
			Holds: budget, Keeps: little, Part: 25, prepare: victimTopic,
			run: func(ctx context.Context, m *Attacker) error {
				request := repeatedFetch(400_000)
				return m.once(ctx, m.connections(8), func(c *Conn, _ int) error { return c.Send(request) })
			},
		},
		{
			Name: "many-parked-fetches", Aim: "3,000 fetches of one partition wait for 5 minutes",
			Holds: budget, Keeps: little, Part: 10, prepare: victimTopic,
			run: func(ctx context.Context, m *Attacker) error {
				request := frame(fetchRequest(victim, idleFor, 1<<20))
				return m.once(ctx, m.connections(3000), func(c *Conn, _ int) error { return c.Send(request) })
			},
		},
		{
			Name: "fetch-sessions", Aim: "200 sessions of 20,000 made-up partitions each, whose connections are closed",
			Holds: budget, Keeps: budget, Part: 20, prepare: victimTopic,
			run: func(ctx context.Context, m *Attacker) error {
				request := session(20_000)
				return m.once(ctx, m.connections(200), func(c *Conn, _ int) error {
					defer m.drop(c)
					return c.burst(request, 1)
				})
			},
		},
		{
			Name: "many-fetch-sessions", Aim: "20 clients begin 10,000 sessions of 20 made-up partitions each",
			Holds: some, Keeps: some, Part: 10, prepare: victimTopic,
			run: func(ctx context.Context, m *Attacker) error {
				request := session(20)
				each := m.some(10_000) / 20
				return m.once(ctx, 20, func(c *Conn, _ int) error { return c.burst(request, each) })
			},
		},
		unread("unread-fetches", "clients", false),
		unread("unread-fetches-tls", "clients over TLS", true), // whose records no file lends
		{
			Name: "unread-metadata", Aim: "200 clients ask for 10,000 partitions and read nothing",
			Holds: 2 * budget, Keeps: some, Part: 5,
			prepare: func(_ context.Context, c *Conn, m *Attacker) error { return c.makeTopic(wide, m.some(10_000)) },
			run: func(ctx context.Context, m *Attacker) error {
				req := kmsg.NewPtrMetadataRequest()
				req.Version = 9
				t := kmsg.NewMetadataRequestTopic()
				t.Topic = kmsg.StringPtr(wide)
				req.Topics = append(req.Topics, t)
				request := frame(req)
				return m.once(ctx, m.connections(200), func(c *Conn, _ int) error { return c.sendUnread(request, 20) })
			},
		},
	}
}

// repeatedFetch waits for a partition's first record and names the partition n times.
func repeatedFetch(n int) []byte {
	req := fetchRequest(victim, idleFor, 1<<20)
	req.Version = 7
	p := req.Topics[0].Partitions[0]
	for range n - 1 {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	return frame(req)
}

// session begins a fetch session (KIP-227) of n partitions that the topic does not have.
func session(n int) []byte {
	req := fetchRequest(victim, 0, 1<<20)
	req.Version, req.SessionEpoch = 7, 0
	for i := range n {
		p := req.Topics[0].Partitions[0]
		p.Partition = int32(i + 1)
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	return frame(req)
}

const wide = "wide"

// wideBatches returns how many batches of 1 MB the topic has.
func wideBatches(m *Attacker) int { return max(60, m.some(240)) }

// wideTopic creates a topic with more records than a fetch may return.
func wideTopic(ctx context.Context, c *Conn, m *Attacker) error {
	if err := c.makeTopic(wide, 1); err != nil {
		return err
	}
	value := make([]byte, 1_000_000)
	if _, err := rand.Read(value); err != nil {
		return err
	}
	b := record.NewBuilder(record.BatchOptions{})
	b.Append(0, nil, value, nil)
	batch, err := b.Build()
	if err != nil {
		return err
	}
	for range wideBatches(m) {
		resp, err := c.Ask(produceOf(wide, 1, batch))
		if err == nil {
			err = produced(resp)
		}
		if kerr.IsRetriable(err) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("fill %s: %w", wide, err)
		}
	}
	return nil
}
