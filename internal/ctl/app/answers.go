package app

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/pkg/durability"
)

// Profiles is the answer of GET /v1/profiles.
type Profiles struct {
	Default  string    `json:"default"`
	Profiles []Profile `json:"profiles"`
	Groups   []Groups  `json:"groups"`
}

// Profile is a durability profile that a broker knows.
type Profile struct {
	Name       string          `json:"name"`
	Ack        durability.Ack  `json:"ack"`
	Sync       durability.Sync `json:"sync"`
	MaxWaitMs  float64         `json:"maxWaitMs"`
	MaxRecords int             `json:"maxRecords"`
	MaxBytes   int64           `json:"maxBytes"`
	IntervalMs float64         `json:"intervalMs"`
	Doc        string          `json:"doc"`
	Waits      *CommitWaits    `json:"waits"` // nil where nothing waited yet
}

// CommitWaits is how long records waited for their acknowledgement under a profile.
type CommitWaits struct {
	Count  int64   `json:"count"`
	MeanMs float64 `json:"meanMs"`
}

// Groups is what one fdatasync made durable in a directory.
type Groups struct {
	Dir         string   `json:"dir"`
	Count       int64    `json:"count"`
	MeanRecords *float64 `json:"meanRecords"` // nil where there was none
	MeanBytes   *float64 `json:"meanBytes"`
	MeanSyncMs  *float64 `json:"meanSyncMs"`
}

// Durability is the profile as the broker uses it.
func (p Profile) Durability() durability.Profile {
	return durability.Profile{Name: p.Name, Doc: p.Doc, Ack: p.Ack, Sync: p.Sync, MaxRecords: p.MaxRecords, MaxBytes: p.MaxBytes,
		MaxWait: milliseconds(p.MaxWaitMs), Interval: milliseconds(p.IntervalMs)}
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// Profiles asks for the durability profiles and what was seen of them.
func (p *AdminPort) Profiles(ctx context.Context) (*Profiles, error) {
	var answer Profiles
	if err := p.get(ctx, "/v1/profiles", &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Health asks for the broker's health.
func (p *AdminPort) Health(ctx context.Context) (*health.Report, error) {
	return p.report(ctx, &p.client, http.MethodGet)
}

// Probe is Health after the broker has measured its disks, which takes some seconds.
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

// Log is a partition's log, as far as commands use it.
type Log struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Retained  string `json:"retained"` // why its oldest segment is still there; empty where there is none
	Error     string `json:"error"`    // why the log cannot be used; empty if it can
	Damaged   string `json:"damaged"`  // the first range of offsets that cannot be read; empty if all can
}

// logsAtOnce is how many logs one answer holds at most.
const logsAtOnce = 10_000

// Logs asks for the logs that the broker has of some topics.
func (p *AdminPort) Logs(ctx context.Context, topics ...string) ([]Log, error) {
	q := url.Values{"topic": topics, "limit": {strconv.Itoa(logsAtOnce)}}
	var all []Log
	for {
		var answer struct {
			More bool  `json:"more"`
			Logs []Log `json:"logs"`
		}
		if err := p.get(ctx, "/v1/logs?"+q.Encode(), &answer); err != nil {
			return nil, err
		}
		all = append(all, answer.Logs...)
		n := len(answer.Logs)
		if !answer.More || n == 0 {
			return all, nil
		}
		last := answer.Logs[n-1]
		q.Set("after", last.Topic+"/"+strconv.Itoa(int(last.Partition)))
	}
}

// Clock asks how late it is at the broker, to the second.
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
		return time.Time{}, fmt.Errorf("admin port %s/healthz: its answer has no date: %w", p.base, err)
	}
	return now, nil
}
