package app

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
	"github.com/chronik-io/chronik/pkg/durability"
)

// Profiles is the answer of GET /v1/profiles.
type Profiles struct {
	Default  string    `json:"default"`
	Profiles []Profile `json:"profiles"`
	Groups   []Groups  `json:"groups"`
}

// Profile is a durability profile of the broker.
type Profile struct {
	Name       string          `json:"name"`
	Ack        durability.Ack  `json:"ack"`
	Sync       durability.Sync `json:"sync"`
	MaxWaitMs  float64         `json:"maxWaitMs"`
	MaxRecords int             `json:"maxRecords"`
	MaxBytes   int64           `json:"maxBytes"`
	IntervalMs float64         `json:"intervalMs"`
	Doc        string          `json:"doc"`
	Waits      *CommitWaits    `json:"waits"` // nil if nothing has waited yet
}

// CommitWaits is how long records waited for their acknowledgement under a profile.
type CommitWaits struct {
	Count  int64   `json:"count"`
	MeanMs float64 `json:"meanMs"`
}

// Groups describes the group commits of a directory: what one fdatasync made durable on average.
type Groups struct {
	Dir         string   `json:"dir"`
	Count       int64    `json:"count"`
	MeanRecords *float64 `json:"meanRecords"` // nil if there was none
	MeanBytes   *float64 `json:"meanBytes"`
	MeanSyncMs  *float64 `json:"meanSyncMs"`
}

// Durability returns the profile in the broker's type.
func (p Profile) Durability() durability.Profile {
	return durability.Profile{Name: p.Name, Doc: p.Doc, Ack: p.Ack, Sync: p.Sync, MaxRecords: p.MaxRecords, MaxBytes: p.MaxBytes,
		MaxWait: milliseconds(p.MaxWaitMs), Interval: milliseconds(p.IntervalMs)}
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// Profiles returns the durability profiles with their measurements.
func (p *AdminPort) Profiles(ctx context.Context) (*Profiles, error) {
	var answer Profiles
	if err := p.get(ctx, "/v1/profiles", &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Health returns the broker's health report.
func (p *AdminPort) Health(ctx context.Context) (*health.Report, error) {
	return p.report(ctx, &p.client, http.MethodGet)
}

// Probe makes the broker measure its disks for some seconds and returns its health report.
func (p *AdminPort) Probe(ctx context.Context) (*health.Report, error) {
	return p.report(ctx, &http.Client{Timeout: probeTime, Transport: p.client.Transport}, http.MethodPost)
}

func (p *AdminPort) report(ctx context.Context, client *http.Client, method string) (*health.Report, error) {
	var answer health.Report
	if err := p.do(ctx, client, method, "/v1/health", &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Logs returns the broker's logs of the given topics, or all without topics.
func (p *AdminPort) Logs(ctx context.Context, topics ...string) ([]view.Log, error) {
	q := url.Values{"topic": topics, "limit": {strconv.Itoa(view.MaxLogs)}}
	var all []view.Log
	for {
		var answer view.Logs
		if err := p.get(ctx, "/v1/logs?"+q.Encode(), &answer); err != nil {
			return nil, err
		}
		all = append(all, answer.List...)
		n := len(answer.List)
		if !answer.More || n == 0 {
			return all, nil
		}
		last := answer.List[n-1]
		q.Set("after", last.Topic+"/"+strconv.Itoa(int(last.Partition)))
	}
}

// Clock returns the broker's time, to the second.
func (p *AdminPort) Clock(ctx context.Context) (time.Time, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/healthz", nil)
	if err != nil {
		return time.Time{}, fmt.Errorf("admin port %s: %w", p.base, err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return time.Time{}, fmt.Errorf("admin port %s/healthz: %w", p.base, err)
	}
	defer resp.Body.Close()
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("admin port %s/healthz: the answer has no date: %w", p.base, err)
	}
	return now, nil
}
