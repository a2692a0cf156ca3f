package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

// edge is a reading of the server at one end of the interval.
type edge struct {
	at, cpu time.Duration
	counts  counters
}

// edge reads the server's CPU time and the counters of its admin port.
func (r *runner) edge(ctx context.Context) (e edge, err error) {
	e.at = r.window.Now()
	if pid := r.config.ServerPID; pid != 0 {
		if e.cpu, err = meter.ProcessCPU(pid); err != nil {
			return e, err
		}
	}
	if e.counts, err = r.admin.count(context.WithoutCancel(ctx)); err != nil {
		r.unasked, r.admin = err, nil // the figures are correct without it
	}
	return e, nil
}

// watch ends the points of the interval as they pass, passes them to progress and reads the server
// at both ends. It returns when the interval ends.
func (r *runner) watch(ctx context.Context, progress Progress) error {
	w := r.window
	w.SleepUntil(ctx, w.From())
	from, err := r.edge(ctx)
	if err != nil {
		return err
	}
	for n := 1; ctx.Err() == nil && w.From()+time.Duration(n)*w.Step() <= w.Until(); n++ {
		w.SleepUntil(ctx, w.From()+time.Duration(n)*w.Step())
		if ctx.Err() == nil {
			r.receive(n, progress)
			r.passOn(n, progress)
		}
	}
	w.SleepUntil(ctx, w.Until())
	if ctx.Err() != nil {
		// The callback that cuts the window may not have run yet.
		w.Cut()
	}
	until, err := r.edge(ctx)
	if err != nil {
		return err
	}
	// The readings are not exactly at the ends of the interval.
	if over := until.at - from.at; over > 0 {
		r.cpu = time.Duration(float64(until.cpu-from.cpu) * float64(w.Elapsed()) / float64(over))
		r.against.Broker, r.against.Syncs = from.counts.version, syncsBetween(from.counts, until.counts, over)
	}
	return nil
}

// passOn closes the first n points and passes those that were still open to progress.
func (r *runner) passOn(n int, progress Progress) {
	step := r.window.Step()
	for _, f := range r.flows {
		points := f.meter.Close(n)
		for i, p := range points {
			if progress != nil {
				progress(f.name, pointOf(p, time.Duration(n-len(points)+i+1)*step, step))
			}
		}
	}
}

func pointOf(p meter.Point, at, width time.Duration) Point {
	return Point{
		At: at, Width: width, Requests: p.Requests, Records: p.Records, Failures: p.Failures, PayloadBytes: p.Payload,
		P50: p.P50, P99: p.P99, Max: p.Max,
	}
}

// result returns the results of the flows.
func (r *runner) result() *Result {
	res := &Result{Config: r.config, Started: r.window.Started(), Elapsed: r.window.Elapsed(), Against: r.against, Received: r.received}
	var successes int64
	for _, f := range r.flows {
		out := r.flowOf(f)
		switch f.name {
		case FlowProduce:
			res.Produce = out
		case FlowConsume:
			res.Consume = out
		case FlowEndToEnd:
			res.EndToEnd = out
		}
		if f.name == FlowEndToEnd {
			continue // the records of the produce flow
		}
		if r.config.Clients == ClientsOwn {
			successes += out.Requests
		} else {
			successes += out.Records
		}
	}
	if r.received != nil {
		successes = r.received.Records
	}
	if r.config.ServerPID != 0 {
		res.CPU = &CPU{Seconds: r.cpu.Seconds()}
		if successes > 0 {
			res.CPU.PerRequest = r.cpu / time.Duration(successes)
		}
	}
	res.Notes = r.notes(res)
	return res
}

func (r *runner) flowOf(f *flow) *Flow {
	t := f.meter.Totals()
	out := &Flow{
		Requests: t.Requests, Records: t.Records, PayloadBytes: t.Payload, WireBytes: t.Wire, WireKnown: true,
		Failures: t.Failures, Unanswered: t.Unanswered, Oldest: t.Oldest, WarmupFailures: t.Early, Latency: t.Latency,
		PayloadIsBatches: f.name == FlowConsume && r.config.Clients == ClientsOwn,
		SentOnly:         f.name == FlowProduce && r.config.Acks == AcksNone,
	}
	elapsed, step := r.window.Elapsed(), r.window.Step()
	for i, p := range t.Points {
		begin := time.Duration(i) * step
		if width := min(step, elapsed-begin); width > 0 {
			out.Series = append(out.Series, pointOf(p, begin+width, width))
		}
	}
	return out
}

// notes returns the sentences that a reader of the figures must know.
func (r *runner) notes(res *Result) []string {
	var notes []string
	c := r.config
	add := func(when bool, text string) {
		if when {
			notes = append(notes, text)
		}
	}
	add(r.window.Elapsed() < c.Duration, "The run was interrupted.")
	if r.unasked != nil {
		notes = append(notes, fmt.Sprintf("The broker's counters are missing: %v.", r.unasked))
	}
	for _, f := range res.Flows() {
		add(f.WarmupFailures > 0, fmt.Sprintf("%s: %d failures before the interval are not counted.", f.Name, f.WarmupFailures))
	}
	add(r.unconfirmed(), "acks=0: nothing is acknowledged. The received records are the growth of the topic, by any producer; produce "+
		"counts writes to sockets, which have large buffers.")
	add(c.Mode == ModeConsume && c.Clients == ClientsOwn, "Raw fetches read batch headers only; payload bytes count whole batches.")
	add(
		c.Mode == ModeConsume && c.Clients == ClientsShared,
		"One kgo consumer reads all partitions; a latency is the time between two polls.",
	)
	add(c.Consumers > 0, fmt.Sprintf("The receivers are %d raw connections: each record counts once for each of them.", c.Consumers))
	add(c.Mode == ModeE2E && c.Consumers == 0, "The receiver is one kgo consumer, whatever the kind of clients.")
	add(c.Mode == ModeE2E, "End-to-end latencies count from the intended send time if there is a rate, otherwise from the send.")
	add(c.Mode == ModeMixed, "Consumers read the topic from its start repeatedly while the producers write.")
	add(
		c.Rate == 0 && c.Clients == ClientsBatched && c.Mode != ModeConsume,
		"Unthrottled batches: a latency is mostly the time in the client's own queue.",
	)
	return notes
}
