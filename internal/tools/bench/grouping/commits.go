package grouping

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/load"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// commitVersion is the version of OffsetCommit: it names topics, which all brokers support.
const commitVersion = 8

// CommitsConfig configures Commits.
type CommitsConfig struct {
	Target
	// Concurrency is the number of connections, each of which waits for its response. They are
	// distributed over the groups.
	Concurrency int `json:"concurrency"`
	Groups      int `json:"groups"`
	// Each is the number of partitions in a request.
	Each int `json:"each"`
	frame.Interval
}

func (c CommitsConfig) check() error {
	var x settings.Checks
	c.Target.check(&x)
	x.Between("concurrency", c.Concurrency, 1, MaxMembers)
	x.Between("groups", c.Groups, 1, MaxMembers)
	x.Between("each", c.Each, 1, max(c.Partitions, 1))
	c.Interval.Check(&x)
	return x.Err()
}

// CommitsResult counts the acknowledged commits.
type CommitsResult struct {
	Config   CommitsConfig    `json:"config"`
	Measured meter.Span       `json:"measured"`
	Requests int64            `json:"requests"`
	Offsets  int64            `json:"offsets"`
	Failures map[string]int64 `json:"failures,omitempty"`
	Latency  results.Latency  `json:"latency"`
}

// Succeeded reports whether a commit was acknowledged.
func (r *CommitsResult) Succeeded() bool { return r.Requests > 0 }

// Commits measures offset commits in a closed loop: each connection sends a commit and waits for
// its response. The groups have no members, as with consumers that assign partitions themselves.
func Commits(ctx context.Context, c CommitsConfig) (*CommitsResult, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	r := &CommitsResult{Config: c}
	return r, c.run(ctx, c.Groups, func(groups, addrs []string) error { return r.measure(ctx, groups, addrs) })
}

func (r *CommitsResult) measure(ctx context.Context, groups, addrs []string) error {
	c := r.Config
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	window := c.Window()
	m := meter.New(window)
	workers := make([]*committer, c.Concurrency)
	for i := range workers {
		g := i % len(groups)
		caller, err := dial(ctx, addrs[g])
		if err != nil {
			return err
		}
		workers[i] = &committer{caller: caller, window: window, recorder: m.NewRecorder(), req: commitOf(c, groups[g], i)}
	}
	window.Begin()
	var wg sync.WaitGroup
	errs := make([]error, len(workers))
	for i, w := range workers {
		wg.Go(func() { errs[i] = w.run(ctx) })
	}
	spans, err := window.Measure(ctx, c.ServerPID)
	wg.Wait()
	t := m.Totals()
	r.Measured, r.Requests, r.Offsets, r.Failures = spans[0], t.Requests, t.Records, t.Failures
	r.Latency = results.LatencyOf(t.Latency, time.Microsecond)
	return errors.Join(append(errs, err)...)
}

// commitOf returns the request of worker i, without offsets.
func commitOf(c CommitsConfig, group string, i int) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation, req.RetentionTimeMillis = commitVersion, group, -1, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = c.Topic
	for n := range c.Each {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Metadata = int32((i+n)%c.Partitions), kmsg.StringPtr("")
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = []kmsg.OffsetCommitRequestTopic{t}
	return req
}

// committer is one connection.
type committer struct {
	caller   *wire.Caller
	window   *meter.Window
	recorder *meter.Recorder
	req      *kmsg.OffsetCommitRequest
	offset   int64
}

// run commits one offset after the other. It continues if a commit is rejected, and ends if the
// connection fails.
func (w *committer) run(ctx context.Context) error {
	defer w.caller.Close()
	for ctx.Err() == nil {
		began := w.window.Now()
		if began >= w.window.Until() {
			return nil
		}
		w.offset++
		list := w.req.Topics[0].Partitions
		for i := range list {
			list[i].Offset = w.offset
		}
		got, err := w.caller.Call(w.req)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			w.recorder.Fail(began, w.window.Now(), load.FailureName(err), 1)
			return fmt.Errorf("commit offsets of %s: %w", w.req.Group, err)
		}
		if err := refused(got.(*kmsg.OffsetCommitResponse)); err != nil {
			w.recorder.Fail(began, w.window.Now(), load.FailureName(err), 1)
			if busy(err) {
				pause.Wait(ctx.Done(), busyPause)
			}
			continue
		}
		w.recorder.Done(began, w.window.Now(), meter.Amount{Requests: 1, Records: int64(len(list))})
	}
	return nil
}

// refused returns the first error in a response.
func refused(resp *kmsg.OffsetCommitResponse) error {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}
