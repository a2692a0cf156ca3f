package app

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

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

// Rights returns the configuration by which requests need rights.
func (p *AdminPort) Rights(ctx context.Context) (*view.Rights, error) {
	var answer view.Rights
	if err := p.get(ctx, "/v1/rights", &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Metrics returns all metrics, each as the sum over its labels.
func (p *AdminPort) Metrics(ctx context.Context) (map[string]float64, error) {
	text, err := p.Text(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return sums(text)
}

// sums adds up the samples of each name in Prometheus's text format.
func sums(text []byte) (map[string]float64, error) {
	all := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.IndexAny(line, "{ ")
		at := strings.LastIndexByte(line, ' ')
		if end <= 0 || at < 0 {
			return nil, fmt.Errorf("metrics: %q is not a sample in Prometheus's text format", line)
		}
		n, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %q has no number: %w", line, err)
		}
		all[line[:end]] += n
	}
	return all, lines.Err()
}
