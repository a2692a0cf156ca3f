package network

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/protocol"
)

// lateOnly answers requests when their batch runs, and only then.
type lateOnly struct{ waiting []*Request }

func (l *lateOnly) Commit(*groupcommit.Batch) {
	for _, r := range l.waiting {
		r.Respond(body(nil))
	}
	l.waiting = nil
}

// Wherever a reader may wait, the commits of earlier requests have run.
func TestBatchRunsBeforeTheReaderWaits(t *testing.T) {
	next := frame(protocol.KeyProduce, 3, 2, make([]byte, 100))
	for name, c := range map[string]struct {
		then   []byte
		change func(*Options)
	}{
		"for a request":               {},
		"for a length":                {then: next[:2]},
		"for a frame":                 {then: next[:50]},
		"for a large frame":           {then: frame(protocol.KeyProduce, 3, 2, make([]byte, 100_000))[:50_000]},
		"until Produce is answered":   {then: frame(keyMetadata, 3, 2, nil)},
		"for one request to end":      {then: next, change: func(o *Options) { o.ConnectionRequests = 1 }},
		"for the connection's bytes":  {then: next, change: func(o *Options) { o.ConnectionBytes = 100 }},
		"for the budget":              {then: next, change: func(o *Options) { o.ProduceBytes = 20 }},
		"while it is muted":           {then: append(frame(protocol.KeyProduce, 3, 3, nil), next...)},
		"no more: the frame is bad":   {then: []byte{0xff, 0xff, 0xff, 0xff}},
		"no more: the version is bad": {then: frame(protocol.KeyProduce, 99, 2, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			late := &lateOnly{} // used by the one reader
			f := start(t, func(r *Request) {
				if r.CorrelationID == 2 {
					r.Respond(body(nil))
					return
				}
				if r.CorrelationID == 3 {
					r.Throttle(time.Hour)
				}
				late.waiting = append(late.waiting, r)
				r.Batch().Add(late)
			}, c.change)
			defer f.end(t)
			p := f.pipe.dial()
			defer p.Close()
			must(t, p.SetReadDeadline(time.Now().Add(patience)))
			p.sendAsync(append(frame(protocol.KeyProduce, 3, 1, nil), c.then...))
			p.want(t, 1)
			if name == "while it is muted" {
				p.want(t, 3)
			}
		})
	}
}

// A reader that finds one request after the other lets other goroutines run after each, long before
// Go's scheduler preempts it.
func TestReaderYields(t *testing.T) {
	const requests = 500
	sent := make(chan struct{})
	var handled atomic.Int32
	seen := make(chan int32, 1)
	f := start(t, func(r *Request) {
		if handled.Add(1) == 1 {
			<-sent
			go func() { seen <- handled.Load() }()
		}
		r.Respond(body(nil))
	}, nil)
	defer f.end(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c := dial(t, f.tcp(t))
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(patience)))
	c.send(t, bytes.Repeat(frame(keyMetadata, 3, 1, nil), requests))
	close(sent)
	for range requests {
		c.want(t, 1)
	}
	if n := <-seen; n > 4 {
		t.Errorf("another goroutine waited for %d requests", n)
	}
}
