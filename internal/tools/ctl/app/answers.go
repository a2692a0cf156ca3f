package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// Profiles returns the durability profiles with their measurements.
func (p *AdminPort) Profiles(ctx context.Context) (*view.Profiles, error) {
	var answer view.Profiles
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
	if answer.Brokers == nil { // of a version whose findings do not name brokers
		for i := range answer.Findings {
			answer.Findings[i].Broker = health.NoBroker
		}
	}
	return &answer, nil
}

// ErrNoReport means that a broker sends no health report to clients: it is of another kind, or of
// an older version.
var ErrNoReport = errors.New("the broker sends no health report to clients")

// Report returns the health report of a broker and its cluster, which needs no admin port: ask is a
// client, for any broker, or one of its brokers. The error matches ErrNoReport if the broker knows
// none.
func Report(ctx context.Context, ask kmsg.Requestor) (*health.Report, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.UnknownTags.Set(health.Tag, []byte{})
	resp, err := req.RequestWith(ctx, ask)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		if IsUnsupported(err) {
			err = ErrNoReport
		}
		return nil, Needs(BrokerError(err), OnCluster("describe"))
	}
	var report *health.Report
	err = ErrNoReport
	resp.UnknownTags.Each(func(tag uint32, p []byte) {
		if tag == health.Tag {
			report, err = health.Decode(p)
		}
	})
	if errors.Is(err, health.ErrDenied) {
		err = Needs(kerr.ClusterAuthorizationFailed, OnCluster("describe"))
	}
	return report, err
}

// ErrOtherBroker means that an answer is not of the broker that was asked.
var ErrOtherBroker = errors.New("another broker answered, as behind one address for all (route: forward)")

// ReportOf returns the health report of one broker, as Report does. If another one answers, it
// returns that one's report, and an error that matches ErrOtherBroker.
func ReportOf(ctx context.Context, cl *kgo.Client, id int32) (*health.Report, error) {
	r, err := Report(ctx, cl.Broker(int(id)))
	if err == nil && r.Broker != id {
		err = fmt.Errorf("%w: broker %d", ErrOtherBroker, r.Broker)
	}
	return r, err
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
	base, resp, err := p.send(ctx, &p.client, http.MethodGet, "/healthz")
	if err != nil {
		return time.Time{}, err
	}
	defer resp.Body.Close()
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("admin port %s/healthz: the answer has no date: %w", base, err)
	}
	return now, nil
}
