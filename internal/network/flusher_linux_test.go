package network

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
)

// leaves is the size of an answer that the flusher cannot write whole to a choked connection: the
// system sometimes finds space for a little in full buffers.
const leaves = copyLimit - 100

// choked is a connection whose small socket buffers are full: the flusher has to leave its answers
// to the writer.
type choked struct {
	*polled
	filled int // bytes before the first answer
}

func (f *pollFixture) choke(t *testing.T) *choked {
	t.Helper()
	f.narrow(t)
	p := &choked{polled: f.adopt(t, dialSmall(t, f.addr))}
	junk := make([]byte, 4<<10)
	for full := 0; full < 10; { // the client's buffer takes some of it a little later
		var n int
		var failed error
		must(t, p.c.sock.control(func(fd uintptr) { n, failed = unix.Write(int(fd), junk) }))
		switch {
		case failed == nil:
			p.filled += n
			full = 0
		case errors.Is(failed, unix.EAGAIN):
			full++
			time.Sleep(time.Millisecond)
		default:
			t.Fatal(failed)
		}
	}
	return p
}

// left waits until the flusher has left something and the writer is writing it.
func (p *choked) left(t *testing.T) {
	t.Helper()
	p.await(t, "something left to the writer", func(c *conn) bool {
		return c.out.job.n > 0 && c.life.Writer() != connlife.Left && c.life.Writes()
	})
}

// unchoke reads the bytes that filled the buffers.
func (p *choked) unchoke(t *testing.T) {
	t.Helper()
	if _, err := io.CopyN(io.Discard, p, int64(p.filled)); err != nil {
		t.Fatal(err)
	}
}

// ask sends n requests and returns them.
func (p *choked) ask(t *testing.T, q parked, n int) []*Request {
	t.Helper()
	var all []byte
	for i := range n {
		all = append(all, frame(protocol.KeyProduce, 3, int32(i), nil)...)
	}
	p.send(t, all)
	requests := make([]*Request, n)
	for i := range n {
		requests[i] = q.next()
	}
	return requests
}

// A slow reader gets what the flusher left, what waits behind it and what comes later, in order.
func TestSlowReaderGetsEverythingInOrder(t *testing.T) {
	q, told := newParked(), &recorder{}
	f := startPolled(t, q.handle, func(o *Options) { o.Observer = told })
	defer f.end(t)
	p := f.choke(t)
	defer p.Close()
	const n = 100
	requests := p.ask(t, q, n)
	answer := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, i*37%3000) }
	for i := range n / 2 {
		i = n/2 - 1 - i
		requests[i].Respond(body(answer(i)))
	}
	p.left(t)
	var wg sync.WaitGroup
	for i := n / 2; i < n; i++ {
		p := answer(i)
		wg.Go(func() { requests[i].RespondRaw([][]byte{p[:len(p)/2], p[len(p)/2:]}, nil) })
	}
	p.unchoke(t)
	for i := range n {
		if got := p.want(t, int32(i)); !bytes.Equal(got, answer(i)) {
			t.Fatalf("answer %d: %d bytes, want %d", i, len(got), len(answer(i)))
		}
	}
	wg.Wait()
	p.awaitRole(t, connlife.Offered)
	p.send(t, frame(protocol.KeyProduce, 3, n, nil))
	r := q.next()
	if !byPoller(r) {
		t.Error("the connection did not return to its poller")
	}
	r.Respond(body(nil))
	p.want(t, n)
	p.await(t, "every answer counts as sent, what was left too", func(*conn) bool { return told.count() == n+2 }) // adopt sent one
}

// TestSlowReaderWithSomethingLeft: how a connection ends, or continues, when the flusher could not
// write everything.
func TestSlowReaderWithSomethingLeft(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		before  func(rest []*Request)
		then    func(t *testing.T, f *pollFixture, p *choked, rest []*Request)
		closed  CloseReason
	}{
		{name: "reads nothing", timeout: 20 * time.Millisecond, closed: ClosedSlowReader,
			then: func(t *testing.T, f *pollFixture, _ *choked, rest []*Request) {
				rest[0].Respond(body("waits behind it"))
				f.awaitNoConnection(t)
				rest[1].Respond(body("too late"))
			}},
		{name: "resets", closed: ClosedByClient, then: func(t *testing.T, f *pollFixture, p *choked, rest []*Request) {
			rest[0].Respond(body("waits behind it"))
			p.reset(t)
			f.awaitNoConnection(t)
			rest[1].Respond(body("too late"))
		}},
		{name: "is closed by us", closed: ClosedShutdown, then: func(t *testing.T, f *pollFixture, _ *choked, rest []*Request) {
			rest[0].Respond(body("waits behind it"))
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			rest[1].Respond(body("too late"))
		}},
		{name: "abort", closed: ClosedError, then: func(t *testing.T, _ *pollFixture, p *choked, rest []*Request) {
			rest[0].Abort(errors.New("acks=0 and an error"))
			rest[1].Respond(body("never seen"))
			p.unchoke(t)
			p.want(t, 0)
			p.wantClosed(t)
		}},
		{name: "abort in the same write", closed: ClosedError, before: func(rest []*Request) {
			rest[0].Abort(errors.New("acks=0 and an error"))
			rest[1].Respond(body("never seen"))
		}, then: func(t *testing.T, _ *pollFixture, p *choked, _ []*Request) {
			p.unchoke(t)
			p.want(t, 0)
			p.wantClosed(t)
		}},
		{name: "half close", closed: ClosedByClient, then: func(t *testing.T, _ *pollFixture, p *choked, rest []*Request) {
			p.closeWrite(t)
			p.await(t, "the end of reading", func(c *conn) bool { return c.life.Reader() == connlife.Ended })
			rest[1].Respond(body("2"))
			rest[0].Respond(body("1"))
			p.unchoke(t)
			p.wantFirst(t, 3)
			p.wantClosed(t)
		}},
		{name: "shutdown", closed: ClosedShutdown, then: func(t *testing.T, f *pollFixture, p *choked, rest []*Request) {
			done := make(chan error)
			go func() { done <- f.Shutdown(context.Background()) }()
			p.await(t, "the end of reading", func(c *conn) bool { return c.life.Reader() == connlife.Ended })
			rest[1].Respond(body("2"))
			rest[0].Respond(body("1"))
			p.unchoke(t)
			p.wantFirst(t, 3)
			p.wantClosed(t)
			p.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}},
		{name: "expiry behind it", closed: ClosedByClient, then: func(t *testing.T, _ *pollFixture, p *choked, rest []*Request) {
			for _, r := range rest {
				r.ExpireAt(time.Now(), func() { r.Respond(body("timed out")) })
			}
			p.unchoke(t)
			p.wantFirst(t, 3)
			p.awaitRole(t, connlife.Offered)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &recorder{}
			q := newParked()
			f := startPolled(t, q.handle, func(opts *Options) { opts.WriteTimeout, opts.Observer = c.timeout, o })
			p := f.choke(t)
			requests := p.ask(t, q, 3)
			if c.before != nil { // which ends the reading and wakes the writer: it may write everything itself
				c.before(requests[1:])
				p.await(t, "the end of reading", func(c *conn) bool { return c.life.Reader() == connlife.Ended })
				time.Sleep(time.Millisecond)
			}
			requests[0].Respond(body(make([]byte, leaves)))
			p.await(t, "something left to the writer", func(conn *conn) bool {
				return conn.out.job.n > 0 || c.before != nil &&
					conn.life.Writes()
			})
			c.then(t, f, p, requests[1:])
			p.Close()
			f.awaitNoConnection(t)
			f.end(t)
			if want := "test closed: " + string(c.closed); !slices.Contains(o.told, want) {
				t.Errorf("told %q, not %q", o.told, want)
			}
		})
	}
}

// wantFirst reads the answers to the first n requests.
func (p *choked) wantFirst(t *testing.T, n int32) {
	t.Helper()
	for i := range n {
		p.want(t, i)
	}
}

// A write that comes back short after the connection was closed leaves nothing: the writer does not
// look for it any longer.
func TestKilledWhileTheFlusherWrites(t *testing.T) {
	q := newParked()
	f := startPolled(t, q.handle, nil)
	p := f.choke(t)
	defer p.Close()
	r := p.ask(t, q, 1)[0]
	r.RespondRaw([][]byte{make([]byte, leaves)}, func() { // after the write, before its result counts
		p.c.mu.Lock()
		p.c.kill(ClosedByClient)
		p.c.mu.Unlock()
		p.await(t, "the reader's end", func(c *conn) bool { return c.life.Reader() == connlife.Ended })
		time.Sleep(5 * time.Millisecond) // the writer most probably waits for the flusher now
	})
	f.awaitNoConnection(t)
	f.end(t)
}

// Only the writer releases the writing role that came with unwritten bytes.
func TestKilledBeforeTheWriterHasWhatIsLeft(t *testing.T) {
	q := newParked()
	f := startPolled(t, q.handle, nil)
	p := f.choke(t)
	defer p.Close()
	r := p.ask(t, q, 1)[0]
	at, resume := make(chan struct{}), make(chan struct{})
	r.ExpireAt(time.Now(), func() { // on the writer, which this holds
		at <- struct{}{}
		<-resume
	})
	<-at
	r.Respond(body(make([]byte, leaves)))
	p.await(t, "something left", func(c *conn) bool { return c.life.Writer() == connlife.Left })
	p.c.mu.Lock()
	p.c.kill(ClosedByClient)
	p.c.mu.Unlock()
	close(resume)
	f.awaitNoConnection(t)
	f.end(t)
}

// Requests are no longer handled while UnwrittenBytes of answers wait, whether the flusher has
// them, left them or they are queued.
func TestSlowReaderOfPolledAnswersIsBounded(t *testing.T) {
	const bound, each, n = 20_000, 700, 100
	f := startPolled(t, func(r *Request) {
		size := each - 8
		if r.CorrelationID == 0 {
			size = leaves
		}
		r.Respond(body(make([]byte, size)))
	}, func(o *Options) { o.UnwrittenBytes = bound })
	defer f.end(t)
	p := f.choke(t)
	defer p.Close()
	p.send(t, frame(protocol.KeyProduce, 3, 0, nil))
	p.left(t)
	for i := range int32(n - 1) {
		p.send(t, frame(protocol.KeyProduce, 3, i+1, nil))
	}
	p.await(t, "the reader waits", func(c *conn) bool {
		if (c.life.Reader() == connlife.Waiting) && (c.queue.unwritten > bound+each || c.queue.n < 2 || c.queue.n > 1+(bound+each)/each) {
			t.Errorf("%d bytes of %d answers are not written", c.queue.unwritten, c.queue.n)
		}
		return (c.life.Reader() == connlife.Waiting)
	})
	p.unchoke(t)
	for i := range int32(n) {
		p.want(t, i)
	}
}

// A connection with many ready answers does not delay those of others.
func TestFlusherIsFair(t *testing.T) {
	q := newParked()
	f := startPolled(t, q.handle, nil)
	defer f.end(t)
	a := f.dial(t)
	defer a.Close()
	b := f.dialOnSamePoller(t, a)
	defer b.Close()
	var order []string // of the flusher
	done := make(chan struct{})
	respond := func(r *Request, name string, wait chan struct{}) {
		r.RespondRaw([][]byte{make([]byte, copyLimit/2)}, func() {
			if order = append(order, name); len(order) == 4 {
				close(done)
			}
			if wait != nil {
				<-wait
			}
		})
	}
	for i := range int32(3) {
		a.send(t, frame(protocol.KeyProduce, 3, i, nil))
	}
	b.send(t, frame(protocol.KeyProduce, 3, 0, nil))
	var ofA, ofB []*Request
	for range 4 {
		if r := q.next(); r.conn == a.c {
			ofA = append(ofA, r)
		} else {
			ofB = append(ofB, r)
		}
	}
	begun := make(chan struct{})
	respond(ofA[1], "a", nil)
	respond(ofA[2], "a", nil)
	respond(ofA[0], "a", begun) // this holds the flusher
	a.await(t, "the flusher writes", func(c *conn) bool { return c.life.Writes() })
	respond(ofB[0], "b", nil)
	close(begun)
	<-done
	for i := range int32(3) {
		a.want(t, i)
	}
	b.want(t, 0)
	if want := []string{"a", "b", "a", "a"}; !slices.Equal(order, want) {
		t.Errorf("written in the order %v, want %v", order, want)
	}
}

// The writer writes large answers, in order with those of the flusher, without copying them.
func TestLargeAnswersOfPolledConnections(t *testing.T) {
	q := newParked()
	f := startPolled(t, q.handle, nil)
	p := f.dial(t)
	defer p.Close()
	sizes := []int{10, 1 << 20, 10, 10, copyLimit, 100, copyLimit - 8, copyLimit - 7, 2 << 20, 5}
	for i := range sizes {
		p.send(t, frame(protocol.KeyProduce, 3, int32(i), nil))
	}
	requests := make([]*Request, len(sizes))
	for i := range requests {
		requests[i] = q.next()
	}
	for _, i := range []int{1, 3, 0, 9, 7, 8, 2, 4, 6, 5} {
		requests[i].RespondRaw([][]byte{bytes.Repeat([]byte{byte(i)}, sizes[i])}, nil)
	}
	for i, size := range sizes {
		if got := p.want(t, int32(i)); !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, size)) {
			t.Fatalf("answer %d: %d bytes, want %d", i, len(got), size)
		}
	}
	p.Close()
	f.end(t)
	if n := cap(p.c.poll.by.loop.Load().out.buf); n > 2*copyLimit {
		t.Errorf("the flusher keeps %d bytes", n)
	}
}
