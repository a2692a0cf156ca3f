package app

import (
	"context"
	"net/url"
	"strconv"

	"github.com/chronik-io/chronik/internal/view"
)

// Connections returns the open connections, at most the 10,000 oldest.
func (p *AdminPort) Connections(ctx context.Context) (*view.Connections, error) {
	var answer view.Connections
	q := url.Values{"limit": {strconv.Itoa(view.MaxConnections)}}
	if err := p.get(ctx, "/v1/connections?"+q.Encode(), &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Brokers returns the registered brokers with their states.
func (p *AdminPort) Brokers(ctx context.Context) ([]view.Broker, error) {
	var answer view.Brokers
	if err := p.get(ctx, "/v1/brokers", &answer); err != nil {
		return nil, err
	}
	return answer.List, nil
}

// Shares returns what the leaders of a topic know of a share group.
func (p *AdminPort) Shares(ctx context.Context, group, topic string) (*view.LedShares, error) {
	var answer view.LedShares
	q := url.Values{"group": {group}, "topic": {topic}}
	if err := p.get(ctx, "/v1/shares?"+q.Encode(), &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Rights returns the configuration by which requests need rights.
func (p *AdminPort) Rights(ctx context.Context) (*view.Rights, error) {
	var answer view.Rights
	if err := p.get(ctx, "/v1/rights", &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}
