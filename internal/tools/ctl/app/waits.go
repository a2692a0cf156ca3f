package app

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

// Waits returns the oldest requests without an answer.
func (p *AdminPort) Waits(ctx context.Context, limit int) (*view.Waits, error) {
	var answer view.Waits
	if err := p.get(ctx, "/v1/waits?limit="+strconv.Itoa(limit), &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Trace follows the next request of a client that takes slower or longer. It waits for one for most
// at the longest.
func (p *AdminPort) Trace(ctx context.Context, client string, slower, most time.Duration) (*view.Trace, error) {
	q := url.Values{"client": {client}, "slowerMs": {strconv.FormatInt(slower.Milliseconds(), 10)},
		"forMs": {strconv.FormatInt(most.Milliseconds(), 10)}}
	var answer view.Trace
	err := p.do(ctx, &http.Client{Timeout: most + askTime, Transport: p.client.Transport}, http.MethodGet, "/v1/waits/trace?"+q.Encode(),
		&answer)
	if err != nil {
		return nil, err
	}
	return &answer, nil
}
