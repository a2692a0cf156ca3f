package network

import (
	"crypto/tls"
	"net"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"testing"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/testing/race"
)

// A connection without requests keeps no stack of the handshake: 4 KiB for its reader and 2 KiB for
// its writer are enough.
func TestIdleTLSKeepsSmallStacks(t *testing.T) {
	const connections = 50
	limit := int64(race.Some(8<<10, 16<<10))
	f := start(t, echo, func(o *Options) { o.MaxUnauthenticatedPerIP = connections })
	t.Cleanup(func() { f.end(t) })
	addr := f.secured(t, tls.NoClientCert, nil)
	before := stacks()
	for i := range connections {
		c := dialTLS(t, addr, nil)
		t.Cleanup(func() { c.Close() })
		c.send(t, frame(keyMetadata, 3, int32(i), nil))
		c.want(t, int32(i))
	}
	if each := (stacks() - before) / connections; each > limit {
		t.Errorf("an idle connection has stacks of %d bytes, more than %d", each, limit)
	}
}

// stacks returns the size of all stacks after the garbage collector has shrunk them.
func stacks() int64 {
	// The first collection shrinks stacks by half at most, and the next ones free the rest.
	for range 4 {
		runtime.GC()
	}
	s := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// A large answer is written several records at a time, if there is memory for that.
func TestTLSGathersRecords(t *testing.T) {
	const size = 4 << 20
	ln := &writesListener{Listener: listen(t)}
	f := start(t, func(r *Request) {
		r.RespondRaw([][]byte{make([]byte, size-100), make([]byte, 100)}, nil)
	}, func(o *Options) { o.ReadBytes = 1 })
	defer f.end(t)
	f.serveTLS(t, ln, tls.NoClientCert, nil)
	c := dialTLS(t, ln.Addr().String(), nil)
	defer c.Close()
	answer := func(id int32) (writes int64) {
		before := ln.writes.Load()
		c.send(t, frame(protocol.KeyProduce, 3, id, nil))
		if got := c.want(t, id); len(got) != size {
			t.Fatalf("got %d bytes", len(got))
		}
		return ln.writes.Load() - before
	}
	if n, most := answer(1), int64(2*size/tlsGather); n > most {
		t.Errorf("%d writes for %d bytes, at most %d are expected", n, size, most)
	}
	for !f.reads.TryAcquire(1) { // the writer gives its memory back when the client has the answer
		runtime.Gosched()
	}
	defer f.reads.Release(1)
	if n, least := answer(2), int64(size/tlsRecord); n < least {
		t.Errorf("%d writes without a buffer for several records, at least %d are expected", n, least)
	}
}

// writesListener counts the writes of all its connections.
type writesListener struct {
	net.Listener
	writes atomic.Int64
}

func (l *writesListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return &writesConn{nc, l}, err
}

type writesConn struct {
	net.Conn
	l *writesListener
}

func (c *writesConn) Write(p []byte) (int, error) {
	c.l.writes.Add(1)
	return c.Conn.Write(p)
}
