package daemon

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

// syncHistory keeps looks at the histograms of fdatasyncs, to tell the last ones
// from all. It is used by one goroutine.
type syncHistory struct{ looks []syncLook }

type syncLook struct {
	at             time.Time
	syncs, records map[string]metrics.Seen // by log directory
}

// look adds what the histograms say now and returns the latency of each directory:
// of the last minutes, or since the start where those are too few.
func (h *syncHistory) look(now time.Time, syncs, records map[string]metrics.Seen) map[string]checks.Latency {
	h.looks = append(h.looks, syncLook{now, syncs, records})
	// The first look that stays is the last one that is old enough.
	for len(h.looks) > 2 && now.Sub(h.looks[1].at) >= recently {
		h.looks = h.looks[1:]
	}
	// Whoever asks often gets the last seconds told apart no finer than a tenth.
	if n := len(h.looks); n > 2 && h.looks[n-2].at.Sub(h.looks[n-3].at) < recently/10 {
		h.looks = append(h.looks[:n-2], h.looks[n-1])
	}
	first, all := h.looks[0], make(map[string]checks.Latency, len(syncs))
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
