package network

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
)

// Meanwhile the poller serves its other connections, answers keep their order, and the connection
// returns to the poller.
func TestPollerHandsOverSlowRequests(t *testing.T) {
	const long = 2
	entered, free := make(chan struct{}), make(chan struct{})
	var polled atomic.Int64
	f := startPolled(t, func(r *Request) {
		switch {
		case r.CorrelationID != long:
			if byPoller(r) {
				polled.Add(1)
			}
		case r.MayBlock():
			close(entered)
			<-free
		default:
			r.HandOver()
			return
		}
		echo(r)
	}, nil)
	defer f.end(t)
	c := f.dial(t)
	defer c.Close()
	other := f.dialOnSamePoller(t, c)
	defer other.Close()
	var burst [][]byte
	for i := range int32(5) {
		burst = append(burst, frame(protocol.KeyProduce, 3, i, []byte{byte(i)}))
	}
	c.send(t, slices.Concat(burst...))
	<-entered
	for i := range int32(long) { // the answers before it are sent
		c.want(t, i)
	}
	for i := range int32(20) {
		other.send(t, frame(protocol.KeyProduce, 3, 100+i, nil))
		other.want(t, 100+i)
	}
	close(free)
	for i := range int32(3) {
		if got := c.want(t, long+i); len(got) != 1 || got[0] != byte(long+i) {
			t.Errorf("request %d was answered with %v", long+i, got)
		}
	}
	c.awaitRole(t, connlife.Offered)
	before := polled.Load()
	c.send(t, frame(protocol.KeyProduce, 3, 9, nil))
	c.want(t, 9)
	if polled.Load() != before+1 {
		t.Error("the connection did not return to the poller")
	}
}

// A request belongs to the handler from the first call on, even if its client has gone.
func TestHandedOverRequestOutlivesItsClient(t *testing.T) {
	handled := make(chan struct{})
	f := startPolled(t, func(r *Request) {
		if !r.MayBlock() {
			r.conn.mu.Lock()
			r.conn.kill(ClosedError)
			r.conn.mu.Unlock()
			r.HandOver()
			return
		}
		echo(r)
		close(handled)
	}, nil)
	defer f.end(t)
	c := f.dial(t)
	defer c.Close()
	c.send(t, frame(protocol.KeyProduce, 3, 1, nil))
	select {
	case <-handled:
	case <-time.After(patience):
		t.Error("it was not handled")
	}
	f.awaitNoConnection(t)
}

// Many requests that take a little each must not delay the poller's other connections.
func TestPollerLeavesASlowBurstToTheReader(t *testing.T) {
	var byReader atomic.Int64
	f := startPolled(t, func(r *Request) {
		if !byPoller(r) {
			byReader.Add(1)
		}
		for began := time.Now(); time.Since(began) < serveTime/5; {
		}
		echo(r)
	}, nil)
	defer f.end(t)
	c := f.dial(t)
	defer c.Close()
	const n = 100
	var burst [][]byte
	for i := range int32(n) {
		burst = append(burst, frame(protocol.KeyProduce, 3, i, nil))
	}
	c.send(t, slices.Concat(burst...))
	for i := range int32(n) {
		c.want(t, i)
	}
	if byReader.Load() < n/2 {
		t.Errorf("the poller did %d of %d requests itself", n-byReader.Load(), n)
	}
}

// A recalled reader checks whether the connection was idle for too long, and would offer it again.
func TestRecallDoesNotDelayAHandedOverRequest(t *testing.T) {
	f := startPolled(t, func(r *Request) {
		if !r.MayBlock() {
			r.conn.idleFired()
			r.HandOver()
			return
		}
		echo(r)
	}, nil)
	defer f.end(t)
	c := f.dial(t)
	defer c.Close()
	c.send(t, frame(protocol.KeyProduce, 3, 1, nil))
	c.want(t, 1)
}
