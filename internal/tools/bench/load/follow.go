package load

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

// Follow is the Receiver of one kgo consumer that reads the records of the run's producers, from
// the former end of the topic on.
type Follow struct {
	arrivals
	o       Options
	offsets Offsets
}

// NewFollow records the current end of the topic.
func NewFollow(ctx context.Context, o Options, m *meter.Meter) (*Follow, error) {
	offsets, err := o.Cluster.Offsets(ctx)
	if err != nil {
		return nil, err
	}
	return &Follow{arrivals: newArrivals(&o, m), o: o, offsets: offsets}, nil
}

// Run implements Generator.
func (g *Follow) Run(ctx context.Context) error {
	w := g.meter.Window()
	cl, err := consumerClient(&g.o, g.recorder, w, g.offsets.End)
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		now := w.Now()
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.Canceled) {
				g.recorder.Fail(now, now, FailureName(e.Err), 1)
			}
		}
		fetches.EachRecord(func(r *kgo.Record) { g.take(g.recorder, r.Value, now) })
	}
	return nil
}

// Copies implements Receiver.
func (g *Follow) Copies() int64 { return 1 }

// Close implements Generator: Run closes the client.
func (g *Follow) Close() {}
