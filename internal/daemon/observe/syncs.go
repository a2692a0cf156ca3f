package observe

import (
	"math"
	"time"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metrics"
)

// recently is how far back fdatasyncs count where there were enough of them: a
// disk that has become slow is not to be hidden by a month of quick ones.
const (
	recently = 10 * time.Minute
	enough   = 100
)

// syncHistory keeps samples of the histograms of fdatasyncs, to separate the recent ones
// from all. It is used by one goroutine.
type syncHistory struct{ samples []syncSample }

type syncSample struct {
	at             time.Time
	syncs, records map[string]metrics.Distribution // by log directory
}

// add samples the histograms and returns the latency of each directory:
// of the last minutes, or since the start where those are too few.
func (h *syncHistory) add(now time.Time, syncs, records map[string]metrics.Distribution) map[string]checks.Latency {
	h.samples = append(h.samples, syncSample{now, syncs, records})
	// The first sample that stays is the last one that is old enough.
	for len(h.samples) > 2 && now.Sub(h.samples[1].at) >= recently {
		h.samples = h.samples[1:]
	}
	// Frequent calls distinguish the recent past no finer than a tenth of it.
	if n := len(h.samples); n > 2 && h.samples[n-2].at.Sub(h.samples[n-3].at) < recently/10 {
		h.samples = append(h.samples[:n-2], h.samples[n-1])
	}
	first, all := h.samples[0], make(map[string]checks.Latency, len(syncs))
	for dir, s := range syncs {
		over, r := "since the start", records[dir]
		if d := s.Since(first.syncs[dir]); now.Sub(first.at) >= recently/2 && d.Count >= enough {
			s, r, over = d, r.Since(first.records[dir]), "in the last "+now.Sub(first.at).Round(time.Minute).String()
		}
		all[dir] = checks.Latency{Count: s.Count, Median: seconds(s.Quantile(0.5)), P99: seconds(s.Quantile(0.99)), Over: over, Records: r.Mean()}
	}
	return all
}

// seconds is a duration; what is above every bucket is the longest one.
func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(s * float64(time.Second))
}
