package limits

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/chronik-io/chronik/internal/bench/meter"
	"github.com/chronik-io/chronik/internal/bench/report"
)

// usage is the CPU time of both processes over approximately the measured interval.
type usage struct {
	server, client time.Duration
	over           time.Duration
}

// cpu scales a CPU time to exactly the interval: the readings are some microseconds beside its
// ends.
func (u *usage) cpu(used, interval time.Duration, requests int64) *report.CPU {
	s := used.Seconds() * interval.Seconds() / u.over.Seconds()
	return &report.CPU{Seconds: s, PerRequest: s * 1e6 / float64(requests)}
}

// cpuWatch reads the CPU times at both ends of the interval.
type cpuWatch struct {
	stop  context.CancelFunc
	done  chan struct{}
	pid   int
	usage *usage
	err   error
}

// watchCPU starts a cpuWatch for the server with that pid and for this process; its goroutine ends
// with the interval or with end.
func watchCPU(ctx context.Context, w *meter.Window, pid int) *cpuWatch {
	ctx, stop := context.WithCancel(ctx)
	c := &cpuWatch{stop: stop, done: make(chan struct{}), pid: pid}
	go func() {
		defer close(c.done)
		if sleep(ctx, w.From()-w.Now()) {
			c.usage, c.err = c.measure(ctx, w)
		}
	}()
	return c
}

func (c *cpuWatch) measure(ctx context.Context, w *meter.Window) (*usage, error) {
	server, e1 := meter.ProcessCPU(c.pid)
	client, e2 := meter.ProcessCPU(os.Getpid())
	from := w.Now()
	sleep(ctx, w.Until()-from)
	serverTo, e3 := meter.ProcessCPU(c.pid)
	clientTo, e4 := meter.ProcessCPU(os.Getpid())
	err := errors.Join(e1, e2, e3, e4)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &usage{server: serverTo - server, client: clientTo - client, over: max(w.Now()-from, 1)}, nil
}

// end waits for the second reading; it returns nil if the interval did not begin or the system does
// not report CPU times.
func (c *cpuWatch) end() (*usage, error) {
	c.stop()
	<-c.done
	return c.usage, c.err
}

// sleep waits, and says whether it was for the whole time.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
