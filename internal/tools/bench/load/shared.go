package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

// Shared is the load of many tasks on one kgo producer without linger: each task produces a record
// and waits for its delivery.
type Shared struct {
	o      Options
	meter  *meter.Meter
	client *kgo.Client
	once   sync.Once
}

// NewShared creates the producer.
func NewShared(o Options, m *meter.Meter) (*Shared, error) {
	cl, err := producerClient(&o, m, kgo.ProducerLinger(0), kgo.MaxBufferedRecords(max(10_000, 2*o.Concurrency)))
	if err != nil {
		return nil, err
	}
	return &Shared{o: o, meter: m, client: cl}, nil
}

// Run implements Generator.
func (g *Shared) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, g.o.Concurrency)
	pool := newValues(g.o.Run, g.o.MessageSize)
	for i := range g.o.Concurrency {
		t := &task{maker: newMaker(&g.o, g.meter, i, pool), client: g.client, delivery: make(chan outcome, 1)}
		wg.Go(func() { errs[i] = t.run(ctx) })
	}
	// A task waits for its record even if ctx ends; closing the client fails the remaining records.
	defer context.AfterFunc(ctx, g.Close)()
	wg.Wait()
	return errors.Join(errs...)
}

// Close implements Generator.
func (g *Shared) Close() { g.once.Do(g.client.Close) }

// task produces one record after the other.
type task struct {
	*maker
	client   *kgo.Client
	delivery chan outcome // capacity 1: one record is under way
}

type outcome struct {
	offset int64
	err    error
}

func (t *task) run(ctx context.Context) error {
	var m message
	promise := func(r *kgo.Record, err error) { t.delivery <- outcome{r.Offset, err} }
	return t.each(ctx, func(began time.Duration) error {
		if err := t.fill(&m, began); err != nil {
			return err
		}
		t.client.Produce(ctx, &m.rec, promise)
		d := <-t.delivery
		t.delivered(&m, t.window.Now(), d.offset, d.err)
		return nil
	})
}
