package limits

import (
	"context"
	"errors"
	"os"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/report"
)

// cpuWatch measures the CPU times of the echo server and of this process over approximately the
// measured interval.
type cpuWatch struct {
	stop           context.CancelFunc
	done           chan struct{}
	server, client meter.Span
	err            error
}

// watchCPU starts a cpuWatch for the server with that pid; its goroutine ends with the interval or
// with end.
func watchCPU(ctx context.Context, w *meter.Window, pid int) *cpuWatch {
	ctx, stop := context.WithCancel(ctx)
	c := &cpuWatch{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		if !w.SleepUntil(ctx, w.From()) {
			return
		}
		server, e1 := meter.StartWatch(pid)
		client, e2 := meter.StartWatch(os.Getpid())
		w.SleepUntil(ctx, w.Until())
		var e3, e4 error
		c.server, e3 = server.Stop()
		c.client, e4 = client.Stop()
		c.err = errors.Join(e1, e2, e3, e4)
	}()
	return c
}

// end waits for the second reading.
func (c *cpuWatch) end() error {
	c.stop()
	<-c.done
	return c.err
}

// perRequest returns the CPU time of a span, scaled to the interval of w; nil if it is unknown or
// there were no requests.
func perRequest(s meter.Span, w *meter.Window, requests int64) *report.CPU {
	used := s.Over(w.Elapsed()).CPUSeconds
	if used == nil || requests == 0 {
		return nil
	}
	return &report.CPU{Seconds: *used, PerRequest: *used * 1e6 / float64(requests)}
}
