package network

import (
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
)

// A client of TLS that does not read a large answer is closed after WriteTimeout, as one without
// TLS: what the failed write left is not written again.
func TestSlowReaderOfTLS(t *testing.T) {
	testCA()
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{}
		const limit = 20 * time.Second
		f := start(t, func(r *Request) { r.RespondRaw([][]byte{make([]byte, 1<<20)}, nil) },
			func(o *Options) { o.Observer, o.WriteTimeout = seen, limit })
		pipe := f.securePipe(t)
		here, there := net.Pipe()
		pipe.conns <- &lateTimeout{there}
		c := overTLS(here, nil)
		c.send(t, frame(keyMetadata, 3, 1, nil))
		time.Sleep(limit + time.Second)
		synctest.Wait()
		if n := f.Stats().Connections; n != 0 {
			t.Errorf("%d connections are open after %v", n, limit+time.Second)
		}
		_ = below(c.Conn).Close()
		f.end(t)
		if !slices.Contains(seen.told, "secure closed: slow_reader") {
			t.Errorf("told %q", seen.told)
		}
	})
}

// lateTimeout is a connection whose writes fail a moment after their deadline, as real ones do. In
// synctest no time passes otherwise.
type lateTimeout struct{ net.Conn }

func (c *lateTimeout) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && isTimeout(err) {
		time.Sleep(time.Nanosecond)
	}
	return n, err
}

// The last record of TLS is not waited for longer than the client's own end (Options.Linger).
func TestShutdownWithTLSClientsThatDoNotRead(t *testing.T) {
	testCA()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, echo, nil)
		pipe := f.securePipe(t)
		c := overTLS(pipe.dial().Conn, nil)
		c.send(t, frame(protocol.KeyProduce, 3, 1, nil))
		c.want(t, 1)
		synctest.Wait()
		var done sync.WaitGroup
		began := time.Now()
		done.Go(func() {
			if err := f.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
		done.Wait()
		if took := time.Since(began); took > 2*f.opts.Linger {
			t.Errorf("ended after %v", took)
		}
		_ = below(c.Conn).Close()
		f.end(t)
	})
}
