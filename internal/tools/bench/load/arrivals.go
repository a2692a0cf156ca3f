package load

import (
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

// Receiver is the receiving side of an end-to-end run. It is created before the producers, so that
// it starts before their first record. Its Run ends with its context, which outlives the window, so
// that it receives records that are in flight at the end.
type Receiver interface {
	Generator
	// Copies returns how often each record arrives: once for each consumer.
	Copies() int64
	// Received returns the number of records of the run that have arrived, copies included.
	Received() int64
	// Missing counts n records that were acknowledged and never arrived.
	Missing(n int64)
}

// arrivals counts the records of one run that arrive, and measures the time since the send time in
// the stamp of each.
type arrivals struct {
	run      uint64
	meter    *meter.Meter
	recorder *meter.Recorder
	received atomic.Int64
}

func newArrivals(o *Options, m *meter.Meter) arrivals {
	return arrivals{run: o.Run, meter: m, recorder: m.NewRecorder()}
}

// take counts a value that arrived; it ignores values of other programs.
func (a *arrivals) take(recorder *meter.Recorder, value []byte, now time.Duration) {
	s, ok := ReadStamp(value)
	if !ok || s.Run != a.run {
		return
	}
	a.received.Add(1)
	recorder.Done(s.Sent, now, meter.Amount{Records: 1, Payload: int64(len(value))})
}

// Received implements Receiver.
func (a *arrivals) Received() int64 { return a.received.Load() }

// Missing implements Receiver.
func (a *arrivals) Missing(n int64) {
	w := a.meter.Window()
	a.recorder.Fail(w.From(), max(w.Until()-1, w.From()), "acknowledged and not received", n)
}
