package connections

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/load"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// LoginsConfig configures Logins.
type LoginsConfig struct {
	Target
	frame.Interval
}

// LoginsResult counts the clients that connected, logged in, and had the metadata.
type LoginsResult struct {
	Config   LoginsConfig     `json:"config"`
	TLS      string           `json:"tls,omitempty"`
	Logins   int64            `json:"logins"`
	Measured meter.Span       `json:"measured"`
	Failures map[string]int64 `json:"failures,omitempty"`
	Latency  results.Latency  `json:"latency"`
}

// failurePause is the pause of a worker after a failure.
const failurePause = 10 * time.Millisecond

// Logins measures in a closed loop how many clients per second can connect: each worker connects
// (TLS), sends ApiVersions, logs in, requests metadata, and closes the connection.
func Logins(ctx context.Context, c LoginsConfig) (*LoginsResult, error) {
	var x settings.Checks
	c.check(&x)
	c.Interval.Check(&x)
	if err := x.Err(); err != nil {
		return nil, err
	}
	o, err := c.opener()
	if err != nil {
		return nil, err
	}
	first, err := o.open(ctx) // a wrong password is an error now, and not many failures later
	if err != nil {
		return nil, bench.Explain([]string{c.Broker}, err)
	}
	r := &LoginsResult{Config: c, TLS: first.Cipher()}
	first.Close()
	err = r.measure(ctx, o)
	return r, err
}

func (r *LoginsResult) measure(ctx context.Context, o *opener) error {
	window := r.Config.Window()
	m := meter.New(window)
	window.Begin()
	var all sync.WaitGroup
	for range r.Config.Connections {
		recorder := m.NewRecorder()
		all.Go(func() {
			for ctx.Err() == nil && window.Now() < window.Until() {
				began := window.Now()
				if err := o.visit(ctx); err != nil {
					recorder.Fail(began, window.Now(), load.FailureName(err), 1)
					pause.Wait(ctx.Done(), failurePause)
					continue
				}
				recorder.Done(began, window.Now(), meter.Amount{Requests: 1})
			}
		})
	}
	spans, err := window.Measure(ctx, r.Config.PID)
	all.Wait()
	t := m.Totals()
	r.Measured, r.Logins, r.Failures, r.Latency = spans[0], t.Requests, t.Failures, results.LatencyOf(t.Latency, time.Microsecond)
	return err
}

// visit is what a client does that connects once and leaves.
func (o *opener) visit(ctx context.Context) error {
	c, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return metadata(c)
}

// Succeeded reports whether a client succeeded.
func (r *LoginsResult) Succeeded() bool { return r.Logins > 0 }

// PerSecond returns the rate.
func (r *LoginsResult) PerSecond() float64 { return float64(r.Logins) / r.Measured.Seconds }

// CPU returns the broker's processor time for each client in microseconds, 0 if it is not known.
func (r *LoginsResult) CPU() float64 {
	if r.Measured.CPUSeconds == nil || r.Logins == 0 {
		return 0
	}
	return *r.Measured.CPUSeconds * 1e6 / float64(r.Logins)
}

// Table writes the result as text.
func (r *LoginsResult) Table(w io.Writer) error {
	var b strings.Builder
	how := "no login"
	if r.Config.User != "" {
		how = mechanism
	}
	if r.TLS != "" {
		how = r.TLS + ", " + how
	}
	fmt.Fprintf(&b, "%d at once, %s: %.0f connections/s, p50 %.2f ms, p99 %.2f ms", r.Config.Connections, how, r.PerSecond(),
		r.Latency.P50/1000, r.Latency.P99/1000)
	if cpu := r.CPU(); cpu > 0 {
		fmt.Fprintf(&b, ", server CPU %.0f µs each", cpu)
	}
	for _, text := range results.Failures(r.Failures) {
		b.WriteString("; " + text)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}
