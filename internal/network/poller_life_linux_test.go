package network

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
)

// The poller ignores the event for bytes that came while the reader had the connection; offering
// the connection finds these bytes.
func TestEventWhileTheReaderReads(t *testing.T) {
	f := startPolled(t, func(r *Request) {
		if !byPoller(r) {
			t.Errorf("%d was not handled by the poller", r.CorrelationID)
		}
		echo(r)
	}, nil)
	defer f.end(t)
	p := f.dial(t)
	defer p.Close()
	beside := f.dialOnSamePoller(t, p)
	defer beside.Close()
	for i := range int32(10) {
		// A cut frame passes the connection to the reader, which is held in its handler.
		held := frame(protocol.KeyProduce, 3, gate, nil)
		p.send(t, held[:5])
		p.awaitRole(t, connlife.Free)
		p.send(t, held[5:])
		<-f.entered
		next := frame(protocol.KeyProduce, 3, i, nil)
		p.send(t, next)
		p.arrived(t, len(next))
		beside.send(t, frame(protocol.KeyProduce, 3, i, nil)) // its event is no earlier
		beside.want(t, i)
		f.open <- struct{}{}
		p.want(t, i)
		p.awaitRole(t, connlife.Offered)
	}
}

// An event may be for the connection that had the id before, for one that its reader has, or for a
// dead one.
func TestStrayEvents(t *testing.T) {
	f := startPolled(t, echo, nil)
	defer f.end(t)
	p := f.dial(t)
	defer p.Close()
	set, err := newPollSet()
	must(t, err)
	defer set.free()
	stray, own := &poller{srv: f.Server, set: set}, &pollLoop{buf: make([]byte, pollRead)}
	defer own.batch.HandOff()
	ask := func(i int32) {
		t.Helper()
		p.send(t, frame(protocol.KeyProduce, 3, i, []byte("x")))
		p.want(t, i)
	}
	stray.serve(own, &pollEvent{c: p.c}, time.Now())
	p.awaitRole(t, connlife.Offered)
	ask(1)
	p.awaitRole(t, connlife.Offered)
	stray.serve(own, &pollEvent{c: p.c, ended: true}, time.Now())
	p.awaitRole(t, connlife.Free)
	stray.serve(own, &pollEvent{c: p.c, ended: true}, time.Now())
	ask(2)
	p.awaitRole(t, connlife.Offered)
	ask(3)
	p.Close()
	f.awaitNoConnection(t)
	stray.serve(own, &pollEvent{c: p.c}, time.Now())
}

// Successive connections with the same id get their own events only.
func TestPollIDsAreUsedAgain(t *testing.T) {
	f := startPolled(t, echo, nil)
	defer f.end(t)
	var wg sync.WaitGroup
	for g := range int32(8) {
		wg.Go(func() {
			for i := range int32(20) {
				p := &polled{client: dial(t, f.addr)}
				_ = p.SetDeadline(time.Now().Add(patience)) // a failure shows below
				for n := range i % 4 {
					if _, err := p.Write(frame(protocol.KeyProduce, 3, g<<16+i<<8+n, nil)); err != nil {
						t.Error(err)
					}
					if got, _, err := p.receive(); err != nil || got != g<<16+i<<8+n {
						t.Errorf("got an answer to %x, %v", got, err)
					}
				}
				if i%3 == 0 {
					_ = p.tcp().SetLinger(0)
				}
				p.Close()
			}
		})
	}
	wg.Wait()
	for _, p := range f.poll {
		await(t, "all ids are free", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.free) == len(p.conns) && !slices.ContainsFunc(p.conns, func(c *conn) bool { return c != nil })
		})
		p.mu.Lock()
		if n := len(p.conns); n == 0 || n >= 160/len(f.poll) {
			t.Errorf("%d ids for %d connections, of which few are open together", n, 160/len(f.poll))
		}
		p.mu.Unlock()
	}
}

// Connections of a failed poller, and new ones, are read by their own goroutines.
func TestPollerFails(t *testing.T) {
	f := startPolled(t, func(r *Request) {
		if byPoller(r) && r.CorrelationID != 77 {
			t.Error("handled by a poller that has failed")
		}
		echo(r)
	}, nil)
	defer f.end(t)
	before := f.dial(t)
	defer before.Close()
	for _, p := range f.poll {
		if err := unix.Dup3(p.set.alarm, p.set.fd, unix.O_CLOEXEC); err != nil { // no longer an epoll instance
			t.Fatal(err)
		}
	}
	before.send(t, frame(protocol.KeyProduce, 3, 77, nil)) // its poller notices now, or at its next wait
	before.want(t, 77)
	await(t, "the poller has failed", before.c.poll.by.failed.Load)
	after := &polled{client: dial(t, f.addr)}
	defer after.Close()
	for i := range int32(10) {
		for _, p := range []*polled{before, after} {
			p.send(t, frame(protocol.KeyProduce, 3, i, nil))
			p.want(t, i)
		}
	}
}

func TestShutdownOfPolledConnections(t *testing.T) {
	q := newParked()
	f := startPolled(t, q.handle, nil)
	idle, busy, cut, read := f.dial(t), f.dial(t), f.dial(t), f.dial(t)
	busy.send(t, append(frame(protocol.KeyProduce, 3, 1, nil), frame(protocol.KeyProduce, 3, 2, nil)...))
	a, b := q.next(), q.next()
	cut.send(t, frame(protocol.KeyProduce, 3, 1, nil)[:9])
	cut.awaitRole(t, connlife.Free)
	read.send(t, frame(keyMetadata, 3, 1, nil))
	c := q.next()
	done := make(chan error)
	go func() { done <- f.Shutdown(context.Background()) }()
	idle.wantClosed(t)
	cut.wantClosed(t)
	idle.Close()
	cut.Close()
	busy.send(t, frame(protocol.KeyProduce, 3, 3, nil)) // is not read
	b.Respond(body("b"))
	a.Respond(body("a"))
	c.Respond(body("c"))
	busy.want(t, 1)
	busy.want(t, 2)
	busy.wantClosed(t)
	read.want(t, 1)
	read.wantClosed(t)
	busy.Close()
	read.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(q.ch) != 0 {
		t.Error("a request was handled during the drain")
	}
	if f.poll != nil {
		t.Error("there are still pollers")
	}
	if err := f.Shutdown(context.Background()); err != nil {
		t.Errorf("a second time: %v", err)
	}
	f.end(t)
}

// Requests that the poller has read but not started when the drain begins are not started.
func TestDrainWhileAPollerHandlesRequests(t *testing.T) {
	f := startPolled(t, func(r *Request) {
		t.Errorf("%d was handled", r.CorrelationID)
		echo(r)
	}, nil)
	p := f.dial(t)
	defer p.Close()
	p.send(t, append(frame(protocol.KeyProduce, 3, gate, nil), frame(protocol.KeyProduce, 3, 2, nil)...))
	<-f.entered
	done := make(chan error)
	go func() { done <- f.Shutdown(context.Background()) }()
	p.await(t, "the drain", func(c *conn) bool { return c.is(connlife.Draining) })
	f.open <- struct{}{}
	p.wantClosed(t)
	p.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	f.end(t)
}

// A reader that wakes while the poller is working sleeps again, so the poller must return the
// connection.
func TestPollerReturnsAConnectionWhoseReaderSleepsAgain(t *testing.T) {
	for name, wake := range map[string]func(*conn){
		"stop":   func(c *conn) { c.stopReading(ClosedShutdown) },
		"kill":   func(c *conn) { c.mu.Lock(); c.kill(ClosedShutdown); c.mu.Unlock() },
		"recall": (*conn).recall,
	} {
		t.Run(name, func(t *testing.T) {
			f := startPolled(t, echo, nil)
			defer f.end(t)
			p := f.dial(t)
			defer p.Close()
			resume := f.hold(t, p, protocol.KeyProduce)
			wake(p.c)
			time.Sleep(5 * time.Millisecond) // most probably the reader was awake by now
			resume()
			if name != "recall" {
				p.wantClosed(t)
				return
			}
			p.await(t, "the reader has looked", func(c *conn) bool { return c.life.Reader() == connlife.Offered })
			p.send(t, frame(protocol.KeyProduce, 3, 1, nil))
			p.want(t, 1)
		})
	}
}

func TestShutdownWithoutAConnection(t *testing.T) {
	for name, end := range map[string]func(*Server) error{
		"shutdown": func(s *Server) error { return s.Shutdown(context.Background()) }, "close": (*Server).Close,
	} {
		t.Run(name, func(t *testing.T) {
			never, err := New(Options{Handler: handlerFunc(echo), Table: produceTable(t)})
			must(t, err)
			f := start(t, echo, nil)
			f.tcp(t)
			for range 2 {
				for _, s := range []*Server{never, f.Server} {
					if err := end(s); err != nil || s.poll != nil {
						t.Errorf("%v, %d pollers", err, len(s.poll))
					}
				}
			}
			f.end(t)
		})
	}
}

// Close does not wait for a client that leaves its side open after the server has ended its own.
func TestCloseEndsAConnectionThatLingers(t *testing.T) {
	f := startPolled(t, echo, func(o *Options) { o.Linger = time.Hour })
	p := f.dial(t)
	defer p.Close()
	p.send(t, make([]byte, 4)) // a bad frame
	p.await(t, "the closing", func(c *conn) bool { return c.life.Life() == connlife.Closing })
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	f.awaitNoConnection(t)
	f.end(t)
}

// The poller, its connections and the requests that it starts meanwhile end in order.
func TestCloseWhileAPollerHandlesRequests(t *testing.T) {
	q := newParked()
	f := startPolled(t, q.handle, nil)
	p := f.dial(t)
	defer p.Close()
	p.send(t, slices.Concat(frame(protocol.KeyProduce, 3, 1, nil), frame(protocol.KeyProduce, 3, gate, nil),
		frame(protocol.KeyProduce, 3, 2, nil)))
	r := q.next()
	<-f.entered
	done := make(chan error)
	go func() { done <- f.Close() }()
	p.await(t, "the end", func(c *conn) bool { return !c.life.Alive() })
	f.open <- struct{}{}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := f.Stats().Orphans; n != 1 || len(q.ch) != 0 {
		t.Errorf("%d orphans, %d more handled", n, len(q.ch))
	}
	r.Respond(body("late"))
	f.end(t)
}
