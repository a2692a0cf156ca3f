package observe

import (
	"math"
	"time"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/view"
)

// recently is the period of the fdatasyncs that count, if it has at least enough of them: a month
// of quick syncs must not hide that a disk has become slow.
const (
	recently = 10 * time.Minute
	enough   = 100
)

// syncHistory keeps samples of the histograms of fdatasyncs, to separate recent syncs from all
// syncs. One goroutine uses it.
type syncHistory struct{ samples []syncSample }

type syncSample struct {
	at             time.Time
	syncs, records map[string]metrics.Distribution // by log directory
}

// add samples the histograms and returns the latency of each directory: over the last minutes or,
// if those have too few syncs, since the start.
func (h *syncHistory) add(now time.Time, syncs, records map[string]metrics.Distribution) map[string]view.Latency {
	h.samples = append(h.samples, syncSample{now, syncs, records})
	// The first sample that stays is the youngest that is old enough.
	for len(h.samples) > 2 && now.Sub(h.samples[1].at) >= recently {
		h.samples = h.samples[1:]
	}
	// More frequent calls do not refine the recent period below a tenth of it.
	if n := len(h.samples); n > 2 && h.samples[n-2].at.Sub(h.samples[n-3].at) < recently/10 {
		h.samples = append(h.samples[:n-2], h.samples[n-1])
	}
	first, all := h.samples[0], make(map[string]view.Latency, len(syncs))
	for dir, s := range syncs {
		over, r := "since the start", records[dir]
		if d := s.Since(first.syncs[dir]); now.Sub(first.at) >= recently/2 && d.Count >= enough {
			s, r, over = d, r.Since(first.records[dir]), "in the last "+now.Sub(first.at).Round(time.Minute).String()
		}
		all[dir] = view.Latency{
			Count:   s.Count,
			Median:  seconds(s.Quantile(0.5)),
			P99:     seconds(s.Quantile(0.99)),
			Over:    over,
			Records: r.Mean(),
		}
	}
	return all
}

// seconds converts to a duration; a value above every bucket becomes the longest duration.
func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(s * float64(time.Second))
}
