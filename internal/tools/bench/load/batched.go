package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

// Batched is the load of kgo producers with kgo's defaults: each produces records as fast as its
// client's buffer accepts them.
type Batched struct {
	o       Options
	meter   *meter.Meter
	clients []*kgo.Client
}

// NewBatched creates the producers.
func NewBatched(o Options, m *meter.Meter) (*Batched, error) {
	g := &Batched{o: o, meter: m}
	for range o.Concurrency {
		cl, err := producerClient(&o, m)
		if err != nil {
			g.Close()
			return nil, err
		}
		g.clients = append(g.clients, cl)
	}
	return g, nil
}

// Run implements Generator.
func (g *Batched) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(g.clients))
	pool := newValues(g.o.Run, g.o.MessageSize)
	for i, cl := range g.clients {
		f := &feeder{maker: newMaker(&g.o, g.meter, i, pool), client: cl}
		wg.Go(func() {
			errs[i] = f.run(ctx)
			drain(ctx, cl)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close implements Generator; closing a client twice does nothing.
func (g *Batched) Close() {
	for _, cl := range g.clients {
		cl.Close()
	}
}

// feeder produces records on one client. It reuses records that are delivered, so there are no more
// of them than the client buffers.
type feeder struct {
	*maker
	client *kgo.Client
	free   sync.Pool
}

func (f *feeder) run(ctx context.Context) error {
	return f.each(ctx, func(began time.Duration) error {
		m, _ := f.free.Get().(*parcel)
		if m == nil {
			m = &parcel{}
			m.promise = func(r *kgo.Record, err error) {
				f.delivered(&m.message, f.window.Now(), r.Offset, err)
				f.free.Put(m)
			}
		}
		if err := f.fill(&m.message, began); err != nil {
			return err
		}
		f.client.Produce(ctx, &m.rec, m.promise)
		return nil
	})
}

// parcel is a message with its delivery callback.
type parcel struct {
	message
	promise func(*kgo.Record, error)
}
