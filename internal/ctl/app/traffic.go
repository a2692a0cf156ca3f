package app

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Connections is the answer of GET /v1/connections.
type Connections struct {
	Broker int32        `json:"broker"` // its id
	More   bool         `json:"more"`   // there are others
	List   []Connection `json:"connections"`
}

// Connection is an open connection of a client, with what it carried since it was opened.
type Connection struct {
	ID          uint64    `json:"id"` // unique until the broker stops
	Address     string    `json:"address"`
	ClientID    string    `json:"clientId"`
	Software    string    `json:"software"`
	Version     string    `json:"softwareVersion"`
	Opened      time.Time `json:"opened"`
	InFlight    int       `json:"inFlight"`
	ThrottledMs int64     `json:"throttledMs"`
	Requests    int64     `json:"requests"`
	BytesIn     int64     `json:"bytesIn"`
	BytesOut    int64     `json:"bytesOut"`
	RecordsIn   int64     `json:"recordsIn"`
}

// connectionsAtOnce is how many connections one answer holds at most.
const connectionsAtOnce = 10_000

// Connections asks for the open connections, the oldest 10,000 of them.
func (p *AdminPort) Connections(ctx context.Context) (*Connections, error) {
	var answer Connections
	q := url.Values{"limit": {strconv.Itoa(connectionsAtOnce)}}
	if err := p.get(ctx, "/v1/connections?"+q.Encode(), &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Metrics asks for all metrics and returns the sum of each name's series.
func (p *AdminPort) Metrics(ctx context.Context) (map[string]float64, error) {
	text, err := p.Text(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return sums(text)
}

// sums adds the series of each name in Prometheus's text format.
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
			return nil, fmt.Errorf("metrics: %q is no sample of Prometheus's text format", line)
		}
		n, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %q has no number: %w", line, err)
		}
		all[line[:end]] += n
	}
	return all, lines.Err()
}
