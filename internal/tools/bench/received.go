package bench

import (
	"context"
	"fmt"
	"math"
	"time"
)

// askEvery is the interval of requests for the topic's log end offsets.
const askEvery = 50 * time.Millisecond

// growth is the number of records in the topic over time, summed over its partitions. It shows what
// the broker received if responses do not report it (acks=0).
type growth struct {
	samples []sample
}

// sample is the number of records at a time on the window's clock.
type sample struct {
	at      time.Duration
	records int64
}

// until returns up to which time the growth is known.
func (g *growth) until() time.Duration {
	if len(g.samples) == 0 {
		return math.MinInt64
	}
	return g.samples[len(g.samples)-1].at
}

// at returns the number of records at t, interpolated between the samples around it. A broker that
// responds late is thus charged with its mean rate of that time instead of none. t must not be
// before the first sample or after the last.
func (g *growth) at(t time.Duration) float64 {
	for i := len(g.samples) - 1; i > 0; i-- {
		from, to := g.samples[i-1], g.samples[i]
		if t < from.at {
			continue
		}
		if to.at <= from.at {
			return float64(to.records)
		}
		part := float64(min(t, to.at)-from.at) / float64(to.at-from.at)
		return float64(from.records) + part*float64(to.records-from.records)
	}
	return float64(g.samples[0].records)
}

// unconfirmed reports whether only the topic's log end offsets show which records were written.
func (r *runner) unconfirmed() bool { return r.config.Acks == AcksNone && r.config.Mode != ModeConsume }

// measureGrowth requests the topic's log end offsets from the start of the warm-up until the
// response to a request that was sent after the interval. ctx ends it.
func (r *runner) measureGrowth(ctx context.Context) error {
	if !r.unconfirmed() {
		return nil
	}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		asked := r.window.Now()
		offsets, err := r.cluster.Offsets(ctx)
		if err != nil {
			return fmt.Errorf("measure the records received with acks=0: %w", err)
		}
		// The broker read its offsets at some time between request and response.
		s := sample{at: asked + (r.window.Now()-asked)/2}
		for _, end := range offsets.End {
			s.records += end
		}
		over := asked >= r.window.Until()
		r.growthMu.Lock()
		r.growth.samples = append(r.growth.samples, s)
		r.growthMu.Unlock()
		if over {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("measure the records received with acks=0: %w", ctx.Err())
		}
	}
}

// receive ends the known points of received records, up to point n of the interval, and passes them
// on.
func (r *runner) receive(n int, progress Progress) {
	if !r.unconfirmed() {
		return
	}
	r.growthMu.Lock()
	defer r.growthMu.Unlock()
	if r.received == nil {
		r.received = &Flow{}
	}
	w := r.window
	for i := len(r.received.Series); i < n; i++ {
		begin := w.From() + time.Duration(i)*w.Step()
		end := min(begin+w.Step(), w.Until())
		if end > r.growth.until() {
			return
		}
		records := int64(r.growth.at(end)) - int64(r.growth.at(begin))
		p := Point{At: end - w.From(), Width: end - begin, Records: records, PayloadBytes: records * int64(r.config.MessageSize)}
		r.received.Records += p.Records
		r.received.PayloadBytes += p.PayloadBytes
		r.received.Series = append(r.received.Series, p)
		if progress != nil {
			progress(FlowReceived, p)
		}
	}
}
