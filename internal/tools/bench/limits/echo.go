package limits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/load"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// EchoConfig is the load of clients "own" on an echo server, which sends the responses of a broker.
type EchoConfig struct {
	// Connections is 1 to bench.MaxConcurrency, with Pipeline requests in flight on each, 1 to
	// bench.MaxPipeline; 0 means 1.
	Connections int `json:"connections"`
	Pipeline    int `json:"pipeline"`
	// MessageSize is the size of a record's value in bytes. Only the length of the name Topic
	// counts.
	MessageSize int    `json:"message_size"`
	Topic       string `json:"topic"`
	frame.Interval
}

// EchoOf returns the echo that corresponds to a run of c.
func EchoOf(c bench.Config) EchoConfig {
	return EchoConfig{Connections: c.Concurrency, Pipeline: c.Pipeline, MessageSize: c.MessageSize, Topic: c.Topic,
		Interval: frame.Interval{Warmup: c.Warmup, Duration: c.Duration}}
}

// EchoResult is the result of Echo.
type EchoResult struct {
	Config EchoConfig `json:"config"`
	// Request and Response are the sizes of each in bytes, with their length field.
	Request  int `json:"request_bytes"`
	Response int `json:"response_bytes"`
	// Elapsed is the measured interval in seconds.
	Elapsed float64 `json:"elapsed_seconds"`
	// Flow counts each response as a request and as a record.
	Flow results.Flow `json:"flow"`
	// Server and Client are the CPU times of the two processes, nil if the system does not report
	// them.
	Server *results.CPU `json:"server_cpu,omitempty"`
	Client *results.CPU `json:"client_cpu,omitempty"`
}

func (c EchoConfig) check() error {
	var x settings.Checks
	x.Between("concurrency", c.Connections, 1, bench.MaxConcurrency)
	x.Between("pipeline", c.Pipeline, 1, bench.MaxPipeline)
	x.Between("message-size", c.MessageSize, 0, largestFrame/2)
	if len(c.Topic) < 1 || len(c.Topic) > longestName {
		x.Add("--topic: the name has %d bytes, not 1 to %d", len(c.Topic), longestName)
	}
	c.Interval.Check(&x)
	return x.Err()
}

// longestName is the maximum length of a topic's name in Kafka.
const longestName = 249

// Echo starts an echo server as a process and measures it. If ctx ends, the result is of the
// shorter interval; there is no result if it ends in the warm-up, or after a failure.
func Echo(ctx context.Context, c EchoConfig) (_ *EchoResult, err error) {
	c.Pipeline = max(c.Pipeline, 1)
	if err := c.check(); err != nil {
		return nil, err
	}
	// The server outlives an interrupt, which ends the load.
	s, err := StartServer(context.WithoutCancel(ctx), c.Topic)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return echo(ctx, c, s.Addr(), s.PID())
}

// echo measures the server at addr, which is the process pid. Its clients are those of a run. There
// is no result after a failure: with fewer responses it measures something else.
func echo(ctx context.Context, c EchoConfig, addr string, pid int) (*EchoResult, error) {
	w := c.Window()
	m := meter.New(w)
	clients, err := load.NewOwn(ctx, load.Options{Cluster: load.Sole(addr, c.Topic), Concurrency: c.Connections, Pipeline: c.Pipeline,
		MessageSize: c.MessageSize, Acks: -1}, m)
	if err != nil {
		return nil, fmt.Errorf("echo: %w", err)
	}
	defer clients.Close()
	w.Begin()
	ended := make(chan error, 1)
	// An interrupt cuts the window, and the last responses are read.
	go func() { ended <- clients.Run(context.WithoutCancel(ctx)) }()
	cpu, err := w.Measure(ctx, pid, os.Getpid())
	err = errors.Join(err, <-ended)
	t := m.Totals()
	if err == nil && t.Early > 0 {
		err = fmt.Errorf("%d failures before the interval", t.Early)
	}
	if failed := results.Failures(t.Failures); err == nil && len(failed) > 0 {
		err = errors.New(strings.Join(failed, "; "))
	}
	if err == nil && w.Elapsed() <= 0 {
		err = fmt.Errorf("nothing was measured: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("echo: %w", err)
	}
	return result(c, w, t, cpu), nil
}

func result(c EchoConfig, w *meter.Window, t meter.Totals, cpu []meter.Span) *EchoResult {
	f := &bench.Flow{Requests: t.Requests, Records: t.Records, PayloadBytes: t.Payload, WireBytes: t.Wire, WireKnown: true,
		Unanswered: t.Unanswered, Oldest: t.Oldest, Latency: t.Latency}
	r := &EchoResult{Config: c, Response: len(answerTo(c.Topic)), Elapsed: w.Elapsed().Seconds(),
		Flow: results.FlowOf(bench.NamedFlow{Name: "echo", Flow: f}, w.Elapsed())}
	if t.Requests > 0 {
		r.Request = int(t.Wire/t.Requests) - r.Response
	}
	r.Server, r.Client = perRequest(cpu[0], t.Requests), perRequest(cpu[1], t.Requests)
	return r
}

// perRequest returns the CPU time of a span; nil if it is unknown or there were no requests.
func perRequest(s meter.Span, requests int64) *results.CPU {
	if s.CPUSeconds == nil || requests == 0 {
		return nil
	}
	return &results.CPU{Seconds: *s.CPUSeconds, PerRequest: *s.CPUSeconds * 1e6 / float64(requests)}
}
