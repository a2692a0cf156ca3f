package page

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/metrics"
)

// The last hour as samples. History has a fixed size: Points samples of every series.
const (
	SampleEvery = 5 * time.Second
	Points      = 720
)

// series is a value that History holds; rates are per second since the previous sample.
type series int

const (
	bytesIn    series = iota // bytes/s of requests
	bytesOut                 // bytes/s of responses
	recordsIn                // records/s that became durable
	requests                 // requests/s
	produceP50               // seconds
	produceP99               // seconds
	syncs                    // fdatasyncs/s
	perSync                  // records per fdatasync
	syncP50                  // seconds
	syncP99                  // seconds
	journal                  // bytes, all directories
	heap                     // bytes
	numSeries
)

// Totals is the input of a sample: counts since the broker's start, and current values.
type Totals struct {
	BytesIn, BytesOut, Requests, Records float64
	Produce                              metrics.Distribution // seconds of Produce requests
	Syncs                                metrics.Distribution // seconds of fdatasyncs, all directories
	JournalBytes, Heap                   float64
}

// History holds the last hour in a fixed number of samples (about 40 KiB). It is safe for
// concurrent use; its lock is held only while a sample is computed or the samples are copied.
type History struct {
	mu     sync.Mutex
	values [numSeries][Points]float32 // NaN: unknown
	at     [Points]int64              // unix ms
	next   int                        // index of the next sample
	n      int                        // samples so far, at most Points
	last   Totals
	lastAt time.Time // zero: no sample yet
	synced time.Time // when Syncs last grew; zero: never
}

// Run takes a sample at once and then every SampleEvery, until ctx ends. read returns false while
// there is nothing to sample; it must not block for long.
func (h *History) Run(ctx context.Context, read func() (Totals, bool)) {
	label.Goroutine("admin history", "")
	tick := time.NewTicker(SampleEvery)
	defer tick.Stop()
	for now := time.Now(); ; {
		if t, ok := read(); ok {
			h.Add(now, t)
		}
		select {
		case now = <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Add takes a sample. The first sample only starts the rates.
func (h *History) Add(now time.Time, t Totals) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, since := h.last, now.Sub(h.lastAt).Seconds()
	first := h.lastAt.IsZero()
	if t.Syncs.Count > before.Syncs.Count {
		h.synced = now
	}
	h.last, h.lastAt = t, now
	if first || since <= 0 {
		return
	}
	produce, done := t.Produce.Since(before.Produce), t.Syncs.Since(before.Syncs)
	i := h.next
	for s, v := range [numSeries]float64{
		bytesIn:    (t.BytesIn - before.BytesIn) / since,
		bytesOut:   (t.BytesOut - before.BytesOut) / since,
		recordsIn:  (t.Records - before.Records) / since,
		requests:   (t.Requests - before.Requests) / since,
		produceP50: estimate(produce, 0.5),
		produceP99: estimate(produce, 0.99),
		syncs:      float64(done.Count) / since,
		perSync:    ratio(t.Records-before.Records, float64(done.Count)),
		syncP50:    estimate(done, 0.5),
		syncP99:    estimate(done, 0.99),
		journal:    t.JournalBytes,
		heap:       t.Heap,
	} {
		h.values[s][i] = float32(v)
	}
	h.at[i] = now.UnixMilli()
	h.next, h.n = (i+1)%Points, min(h.n+1, Points)
}

// estimate returns NaN without observations, so that a plot has a gap instead of a zero.
func estimate(s metrics.Distribution, q float64) float64 {
	if s.Count == 0 {
		return math.NaN()
	}
	return s.Estimate(q)
}

// ratio returns NaN for a divisor of 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// lines is a copy of the history, oldest sample first.
type lines struct {
	values [numSeries][]float32
	at     []int64 // unix ms
	synced time.Time
}

func (h *History) lines() lines {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := lines{synced: h.synced}
	order := func(i int) int { return (h.next - h.n + i + Points) % Points }
	for s := range l.values {
		l.values[s] = make([]float32, h.n)
		for i := range h.n {
			l.values[s][i] = h.values[s][order(i)]
		}
	}
	l.at = make([]int64, h.n)
	for i := range h.n {
		l.at[i] = h.at[order(i)]
	}
	return l
}

// now returns the latest known value of a series within the last half minute, or false.
func (l *lines) now(s series) (float64, bool) {
	v := l.values[s]
	for i := len(v) - 1; i >= max(0, len(v)-6); i-- {
		if x := float64(v[i]); !math.IsNaN(x) {
			return x, true
		}
	}
	return 0, false
}
