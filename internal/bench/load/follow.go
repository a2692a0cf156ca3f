package load

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/bench/meter"
)

// Follow is the receiving side of an end-to-end run: one kgo consumer that reads
// what the producers of the run write, from where the topic ended before, and times
// each record from the send in its stamp.
type Follow struct {
	o        Options
	meter    *meter.Meter
	lane     *meter.Lane
	offsets  Offsets
	received atomic.Int64
}

// NewFollow notes where the topic ends now.
func NewFollow(ctx context.Context, o Options, m *meter.Meter) (*Follow, error) {
	offsets, err := o.Cluster.Offsets(ctx)
	if err != nil {
		return nil, err
	}
	return &Follow{o: o, meter: m, lane: m.Lane(), offsets: offsets}, nil
}

// Run implements Generator: it receives until ctx ends, which is after the
// window, so that records on their way at its end are seen.
func (g *Follow) Run(ctx context.Context) error {
	w := g.meter.Window()
	cl, err := consumerClient(&g.o, g.lane, w, g.offsets.End)
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		now := w.Now()
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.Canceled) {
				g.lane.Fail(now, now, failureName(e.Err), 1)
			}
		}
		fetches.EachRecord(func(r *kgo.Record) { g.take(r, now) })
	}
	return nil
}

func (g *Follow) take(r *kgo.Record, now time.Duration) {
	s, ok := ReadStamp(r.Value)
	if !ok || s.Run != g.o.Run {
		return // of another program
	}
	g.received.Add(1)
	g.lane.Done(s.Sent, now, meter.Amount{Records: 1, Payload: int64(len(r.Value))})
}

// Received is the number of records of the run that have arrived.
func (g *Follow) Received() int64 { return g.received.Load() }

// Missing counts n records that were acknowledged and never arrived.
func (g *Follow) Missing(n int64) {
	w := g.meter.Window()
	g.lane.Fail(w.From(), max(w.Until()-1, w.From()), "acknowledged and not received", n)
}

// Close implements Generator: Run closes what it makes.
func (g *Follow) Close() {}
