package connections

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// openers is the number of connections that are opened at once.
const openers = 16

// IdleConfig configures Idle.
type IdleConfig struct {
	Target
	// Rest is the time between opening the connections and the last reading of the broker's memory.
	Rest time.Duration `json:"rest_ns"`
}

// IdleResult is the broker's resident memory in bytes.
type IdleResult struct {
	Config IdleConfig `json:"config"`
	TLS    string     `json:"tls,omitempty"`
	// Before is before the first connection, Opened when all are open and have one answer each,
	// Rested after Config.Rest.
	Before int64 `json:"before_bytes"`
	Opened int64 `json:"opened_bytes"`
	Rested int64 `json:"rested_bytes"`
	// Took is how long opening them took.
	Took time.Duration `json:"took_ns"`
	// Alive is how many connections answered afterwards.
	Alive int64 `json:"alive"`
}

// Idle opens connections, leaves them alone, and reads the broker's resident memory. At the end
// it sends a request on each, to see that they were open all the time.
func Idle(ctx context.Context, c IdleConfig) (r *IdleResult, err error) {
	var x settings.Checks
	c.check(&x)
	if c.PID == 0 {
		x.Add("--server-pid: the memory of the broker's process is what is measured; give its process id")
	}
	x.NotNegative("rest", c.Rest)
	if err := x.Err(); err != nil {
		return nil, err
	}
	o, err := c.opener()
	if err != nil {
		return nil, err
	}
	r = &IdleResult{Config: c}
	if r.Before, err = meter.ProcessMemory(c.PID); err != nil {
		return nil, cli.WithCode(cli.ExitUsage, err)
	}
	all := make([]*wire.Caller, c.Connections)
	defer func() {
		for _, x := range all {
			if x != nil {
				x.Close()
			}
		}
	}()
	began := time.Now()
	err = each(len(all), func(i int) (err error) {
		all[i], err = o.open(ctx)
		return err
	})
	if err != nil {
		return nil, bench.Explain([]string{c.Broker}, err)
	}
	r.Took, r.TLS = time.Since(began), all[0].Cipher()
	if r.Opened, err = meter.ProcessMemory(c.PID); err != nil {
		return nil, err
	}
	if !pause.Wait(ctx.Done(), c.Rest) {
		return nil, bench.ErrInterrupted
	}
	if r.Rested, err = meter.ProcessMemory(c.PID); err != nil {
		return nil, err
	}
	var alive atomic.Int64
	err = each(len(all), func(i int) error {
		err := metadata(all[i])
		if err == nil {
			alive.Add(1)
		}
		return err
	})
	r.Alive = alive.Load()
	return r, err
}

// each calls f for 0 to n-1, several at once, until a call fails; it returns the errors.
func each(n int, f func(i int) error) error {
	var all sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, openers)
	for k := range errs {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if errs[k] = f(i); errs[k] != nil {
					next.Store(int64(n))
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Succeeded reports whether a connection was open until the end.
func (r *IdleResult) Succeeded() bool { return r.Alive > 0 }

// Table writes the result as text.
func (r *IdleResult) Table(w io.Writer) error {
	mb := func(n int64) float64 { return float64(n) / 1e6 }
	_, err := fmt.Fprintf(w, "%d connections (%s) in %.1f s: resident %.0f MB before, %.0f MB when they were open, %.0f MB after %v, "+
		"%.1f KB for each; %d answered afterwards\n", r.Config.Connections, r.TLS, r.Took.Seconds(), mb(r.Before), mb(r.Opened),
		mb(r.Rested), r.Config.Rest, float64(r.Rested-r.Before)/1e3/float64(r.Config.Connections), r.Alive)
	return err
}
