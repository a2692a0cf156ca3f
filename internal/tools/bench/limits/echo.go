package limits

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// EchoConfig is a load on an echo server: the requests of clients "own", byte for byte, and
// responses of the same size as a broker's.
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

// answerSize returns the size of a Produce response, version 9, for one partition of a topic
// without an error: length, correlation id, tags, topics, name, partitions, index, error, three
// offsets and times, no record errors, no message, tags of partition and topic, throttle time,
// tags.
func answerSize(topic string) int {
	name := len(binary.AppendUvarint(nil, uint64(len(topic)+1))) + len(topic)
	return 4 + 4 + 1 + 1 + name + 1 + 4 + 2 + 8 + 8 + 8 + 1 + 1 + 1 + 1 + 4 + 1
}

// Echo starts an echo server as a process and measures it. If ctx ends, the result is of the
// shorter interval; there is no result if it ends in the warm-up, or after a failure.
func Echo(ctx context.Context, c EchoConfig) (_ *EchoResult, err error) {
	c.Pipeline = max(c.Pipeline, 1)
	if err := c.check(); err != nil {
		return nil, err
	}
	// The server outlives an interrupt, which ends the load.
	s, err := StartServer(context.WithoutCancel(ctx), answerSize(c.Topic))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return echo(ctx, c, s.Addr(), s.PID())
}

// echo measures the server at addr, which is the process pid.
func echo(ctx context.Context, c EchoConfig, addr string, pid int) (*EchoResult, error) {
	w := c.Window()
	m := meter.New(w)
	clients := make([]*echoer, 0, c.Connections)
	defer func() {
		for _, e := range clients {
			_ = e.conn.Close() // everything was read
		}
	}()
	for range c.Connections {
		e, err := newEchoer(ctx, addr, c, w, m.NewRecorder())
		if err != nil {
			return nil, err
		}
		clients = append(clients, e)
	}
	w.Begin()
	interval, end := context.WithCancel(ctx)
	defer end()
	run := &connections{end: end, clients: clients}
	var wg sync.WaitGroup
	for _, e := range clients {
		wg.Go(func() {
			if err := e.run(); err != nil {
				run.fail(err)
			}
		})
	}
	cpu, err := w.Measure(interval, pid, os.Getpid())
	wg.Wait()
	if err := errors.Join(err, run.err); err != nil {
		return nil, err
	}
	if w.Elapsed() <= 0 {
		return nil, fmt.Errorf("echo: nothing was measured: %w", context.Cause(ctx))
	}
	return result(c, clients[0].request, w, m.Totals(), cpu), nil
}

// connections closes all connections of a run when the first of them fails: a run with fewer
// connections measures something else.
type connections struct {
	end     func() // ends the interval
	clients []*echoer
	once    sync.Once
	err     error // the first failure; read it after all connections have ended
}

// fail records the first failure and closes every connection. Ending the window is not enough: a
// connection that waits for a response would wait until its deadline, which is after the interval.
// The resulting errors of the other connections are ignored.
func (l *connections) fail(err error) {
	l.once.Do(func() {
		l.err = err
		l.end()
		for _, e := range l.clients {
			_ = e.conn.Close() // the failure is known
		}
	})
}

func result(c EchoConfig, request int, w *meter.Window, t meter.Totals, cpu []meter.Span) *EchoResult {
	f := &bench.Flow{Requests: t.Requests, Records: t.Records, PayloadBytes: t.Payload, WireBytes: t.Wire, WireKnown: true,
		Unanswered: t.Unanswered, Oldest: t.Oldest, Failures: t.Failures, Latency: t.Latency}
	r := &EchoResult{Config: c, Request: request, Response: answerSize(c.Topic), Elapsed: w.Elapsed().Seconds(),
		Flow: results.FlowOf(bench.NamedFlow{Name: "echo", Flow: f}, w.Elapsed())}
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
