package page

import (
	"errors"
	"net/http"
	"time"

	"github.com/chronik-io/chronik/internal/health"
)

// maxFindings is the maximum number of findings in the overview.
const maxFindings = 20

// overviewBody is the content of the overview in addition to the broker.
type overviewBody struct {
	Overview
	Serving  bool
	Shown    []health.Finding
	Omitted  int    // number of further findings
	Synced   string // time of the last disk sync
	Rate     string // rate of incoming records
	Span     string // period of the plots: "Last hour"
	Plots    []Plot
	Sampling bool // there is no sample yet
}

func (p *Page) overview(r *http.Request, b *Status) (any, string, error) {
	body := &overviewBody{Shown: b.Findings[:min(len(b.Findings), maxFindings)]}
	body.Omitted = len(b.Findings) - len(body.Shown)
	var err error
	switch body.Overview, err = p.src.Overview(r.Context()); {
	case errors.Is(err, ErrNotServing):
		return body, "Overview", nil
	case err != nil:
		return nil, "", err
	}
	body.Serving = true
	l := p.history.lines()
	body.Plots, body.Sampling = plotsOf(&l, b.Now), len(l.at) == 0
	over := spanFor(&l, b.Now)
	body.Span = "L" + over.title()[1:]
	body.Synced = syncedText(b.Now, l.synced)
	return body, "Overview", nil
}

// syncedText returns the time since the last disk sync, as precisely as the samples allow.
func syncedText(now, synced time.Time) string {
	switch {
	case synced.IsZero():
		return "No disk sync since the start"
	case now.Sub(synced) < 2*SampleEvery:
		return "Last disk sync within the last 10 seconds"
	}
	return "Last disk sync " + ago(now, synced)
}
