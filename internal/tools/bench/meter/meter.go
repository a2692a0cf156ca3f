package meter

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms hold microseconds from 1 to an hour with three significant digits; longer samples
// count as an hour.
const (
	highest = int64(time.Hour / time.Microsecond)
	digits  = 3
)

// NewHistogram returns an empty histogram of microseconds, as a Meter uses it.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, highest, digits) }

// Point is one step of the interval (see Window.Step).
type Point struct {
	Amount
	Failures      int64
	P50, P99, Max time.Duration
}

// Meter merges the samples of the recorders of one flow.
type Meter struct {
	window *Window

	recordersMu sync.Mutex
	recorders   []*Recorder

	// mu is taken inside a recorder's lock.
	mu     sync.Mutex
	total  *hdrhistogram.Histogram
	points []Point
	// closed points have their percentiles; open ones have a histogram.
	closed int
	open   map[int]*hdrhistogram.Histogram
	spare  []*hdrhistogram.Histogram
}

// New returns a meter for one flow of a run with that window.
func New(w *Window) *Meter {
	return &Meter{window: w, total: NewHistogram(), open: make(map[int]*hdrhistogram.Histogram)}
}

// Window returns the interval that the meter measures.
func (m *Meter) Window() *Window { return m.window }

// NewRecorder returns a recorder for another worker.
func (m *Meter) NewRecorder() *Recorder {
	l := &Recorder{meter: m, samples: make([]uint32, 0, bunch)}
	m.recordersMu.Lock()
	m.recorders = append(m.recorders, l)
	m.recordersMu.Unlock()
	return l
}

// absorb adds the samples that a recorder collected in one point.
func (m *Meter) absorb(at int, samples []uint32, sums Amount, failures int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.points) <= at {
		m.points = append(m.points, Point{})
	}
	p := &m.points[at]
	p.add(sums)
	p.Failures += failures
	into := m.total
	if at >= m.closed {
		into = m.histogram(at)
	}
	for _, us := range samples {
		v := min(int64(us), highest)
		// A value within the histogram's bounds cannot be rejected.
		_ = into.RecordValue(v)
		p.Max = max(p.Max, time.Duration(v)*time.Microsecond)
	}
}

func (m *Meter) histogram(at int) *hdrhistogram.Histogram {
	h := m.open[at]
	if h != nil {
		return h
	}
	if n := len(m.spare); n > 0 {
		h, m.spare = m.spare[n-1], m.spare[:n-1]
	} else {
		h = NewHistogram()
	}
	m.open[at] = h
	return h
}

// Close ends the first n points of the interval and returns the newly ended ones. A sample that a
// worker took before the end of a point and hands over after Close still counts, but not for the
// point's percentiles.
func (m *Meter) Close(n int) []Point {
	m.recordersMu.Lock()
	lanes := m.recorders
	m.recordersMu.Unlock()
	for _, l := range lanes {
		l.mu.Lock()
		if l.point < n {
			l.flush()
		}
		l.mu.Unlock()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	from := m.closed
	for ; m.closed < n; m.closed++ {
		m.closePoint(m.closed)
	}
	return append([]Point(nil), m.points[from:m.closed]...)
}

func (m *Meter) closePoint(at int) {
	for len(m.points) <= at {
		m.points = append(m.points, Point{})
	}
	h := m.open[at]
	if h == nil {
		return
	}
	p := &m.points[at]
	// The histogram rounds up within its three digits; the maximum is exact.
	p.P50 = min(time.Duration(h.ValueAtQuantile(50))*time.Microsecond, p.Max)
	p.P99 = min(time.Duration(h.ValueAtQuantile(99))*time.Microsecond, p.Max)
	m.total.Merge(h)
	h.Reset()
	delete(m.open, at)
	m.spare = append(m.spare, h)
}

// Totals are the results of a meter over the interval.
type Totals struct {
	Amount
	Failures   map[string]int64
	Unanswered int64
	Oldest     time.Duration
	// Early counts failures before the interval, which no other field includes.
	Early   int64
	Latency *hdrhistogram.Histogram
	Points  []Point
}

// Totals ends all points of the interval and returns the results. The caller must call it once,
// when the workers have ended.
func (m *Meter) Totals() Totals {
	w := m.window
	m.Close(int((w.Elapsed() + w.step - 1) / w.step))
	m.recordersMu.Lock()
	defer m.recordersMu.Unlock()
	t := Totals{Latency: m.total, Points: m.points, Failures: make(map[string]int64)}
	for _, p := range m.points {
		t.add(p.Amount)
	}
	for _, l := range m.recorders {
		for name, n := range l.byName {
			t.Failures[name] += n
		}
		t.Unanswered += l.unanswered
		t.Early += l.early
		t.Oldest = max(t.Oldest, l.oldest)
	}
	return t
}
