package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// ErrPartitions is returned for a topic with several partitions if every consumer must receive
// every record.
var ErrPartitions = errors.New(
	"a fan-out needs a topic with one partition, of which each consumer receives every record; name another topic, or use --partitions 1 with --create-topic",
)

const (
	// parkedMillis is how long a broker may hold a fetch without records: consumers must wait for
	// records instead of polling.
	parkedMillis = 20_000
	// dialers is the number of connections that are opened concurrently.
	dialers = 64
)

// Fanout is the Receiver of many consumers of one partition. Each is a connection with a fetch,
// which the broker holds until there is a record.
type Fanout struct {
	arrivals
	consumers []*waiter
}

// waiter is one consumer.
type waiter struct {
	fanout   *Fanout
	link     link
	recorder *meter.Recorder
	request  *wire.FetchRequest
	topic    string

	correlation int32
	next        int64 // offset to fetch next
	failed      bool
}

// NewFanout connects o.Consumers consumers and records the end of the topic.
func NewFanout(ctx context.Context, o Options, m *meter.Meter) (*Fanout, error) {
	if _, err := o.Cluster.version(ctx, kmsg.Fetch, wire.FetchVersion, wire.FetchVersion); err != nil {
		return nil, fmt.Errorf("fan-out: %w", err)
	}
	if n := len(o.Cluster.Partitions()); n != 1 {
		return nil, fmt.Errorf("%s has %d partitions: %w", o.Cluster.Topic, n, ErrPartitions)
	}
	offsets, err := o.Cluster.Offsets(ctx)
	if err != nil {
		return nil, err
	}
	partition := o.Cluster.Partitions()[0]
	g := &Fanout{arrivals: newArrivals(&o, m)}
	for i := range o.Consumers {
		g.consumers = append(g.consumers, &waiter{
			fanout: g, link: link{cluster: o.Cluster, index: i, of: o.Consumers}, recorder: m.NewRecorder(), topic: o.Cluster.Topic,
			request: wire.NewFetchRequest(o.ClientID, o.Cluster.Topic, int32(o.FetchMaxBytes), parkedMillis), next: offsets.End[partition],
		})
	}
	if err := g.connect(ctx); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Fanout) connect(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, dialers)
	for d := range dialers {
		wg.Go(func() {
			for i := d; i < len(g.consumers) && errs[d] == nil; i += dialers {
				errs[d] = g.consumers[i].link.connect(ctx)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Run implements Generator.
func (g *Fanout) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, c := range g.consumers {
		wg.Go(func() { c.run(ctx) })
	}
	wg.Wait()
	return nil
}

// Copies implements Receiver.
func (g *Fanout) Copies() int64 { return int64(len(g.consumers)) }

// Close implements Generator.
func (g *Fanout) Close() {
	for _, c := range g.consumers {
		c.link.close()
	}
}

// run fetches until ctx ends, which closes the connection.
func (c *waiter) run(ctx context.Context) {
	w := c.fanout.meter.Window()
	for ctx.Err() == nil {
		if c.failed {
			c.failed = false
			pause.Wait(ctx.Done(), retryPause)
		}
		began := w.Now()
		_, err := c.link.ready(ctx)
		if err == nil {
			err = c.fetch(w, began)
		}
		if err != nil && ctx.Err() == nil {
			c.recorder.Fail(began, w.Now(), FailureName(err), 1)
			c.link.close()
			c.failed = true
		}
	}
}

func (c *waiter) fetch(w *meter.Window, began time.Duration) error {
	c.correlation = (c.correlation + 1) & (1<<31 - 1)
	partition := c.link.partitions[0]
	out := c.request.Bytes(c.correlation, partition, c.next)
	if err := c.link.exchange(began, out, true); err != nil {
		return err
	}
	now := w.Now()
	frame, _ := c.link.conn.Next()
	a, err := wire.ReadFetched(frame, c.correlation, c.topic, partition)
	if err != nil {
		return err
	}
	c.recorder.Count(now, meter.Amount{Requests: 1, Wire: int64(len(out) + 4 + len(frame))})
	if a.Code != 0 {
		c.recorder.Fail(began, now, codeName(a.Code), 1)
		c.failed = true
		return nil
	}
	c.next, err = wire.EachValue(a.Batches, c.next, func(value []byte) { c.fanout.take(c.recorder, value, now) })
	return err
}
