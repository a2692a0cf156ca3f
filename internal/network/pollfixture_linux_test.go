package network

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
)

// Correlation ids of requests that tests' handlers don't see: the one that brings a connection to
// its poller, and the one that holds the handler until the test continues.
const (
	warm = int32(math.MinInt32)
	gate = int32(math.MinInt32 + 1)
)

// pollFixture is a fixture whose clients connect by TCP and are offered to a poller before a test
// uses them.
type pollFixture struct {
	*fixture
	addr          string
	entered, open chan struct{}
}

func startPolled(t testing.TB, h func(*Request), change func(*Options)) *pollFixture {
	t.Helper()
	f := &pollFixture{entered: make(chan struct{}), open: make(chan struct{})}
	f.fixture = start(t, func(r *Request) {
		switch r.CorrelationID {
		case gate:
			f.entered <- struct{}{}
			<-f.open
			r.RespondNone()
		case warm:
			r.Respond(body(nil))
		default:
			h(r)
		}
	}, change)
	f.addr = f.tcp(t)
	return f
}

// polled is a client, and the server's side of its connection.
type polled struct {
	*client
	c *conn
}

func (f *pollFixture) dial(t testing.TB) *polled {
	t.Helper()
	return f.adopt(t, dial(t, f.addr))
}

// adopt brings a client's connection to its poller.
func (f *pollFixture) adopt(t testing.TB, client *client) *polled {
	t.Helper()
	must(t, client.SetDeadline(time.Now().Add(patience)))
	client.send(t, frame(protocol.KeyProduce, 3, warm, nil))
	client.want(t, warm)
	p := &polled{client: client}
	f.Server.mu.Lock()
	for c := range f.Server.conns {
		if c.peer.String() == client.LocalAddr().String() {
			p.c = c
		}
	}
	f.Server.mu.Unlock()
	p.awaitRole(t, connlife.Offered)
	return p
}

// dialSmall is dial with small buffers from the start: a window that was announced to the other
// side does not shrink.
func dialSmall(t testing.TB, addr string) *client {
	t.Helper()
	d := net.Dialer{Control: smallBuffers}
	c, err := d.Dial("tcp", addr)
	must(t, err)
	return &client{c}
}

// smallBuffers also makes segments small: one of loopback's 64 KiB may not fit into such a buffer,
// and Linux then drops it and repeats it after seconds.
func smallBuffers(_, _ string, c syscall.RawConn) (failed error) {
	err := c.Control(func(fd uintptr) {
		failed = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 512))
	})
	return errors.Join(failed, err)
}

// narrow makes the server accept only connections with small buffers.
func (f *pollFixture) narrow(t testing.TB) {
	t.Helper()
	lc := net.ListenConfig{Control: smallBuffers}
	ln, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	must(t, err)
	must(t, f.Serve(&f.name, ln))
	f.addr = ln.Addr().String()
}

// end is fixture.end, also for a test that failed while it held a reader.
func (f *pollFixture) end(t testing.TB) {
	t.Helper()
	close(f.open)
	f.fixture.end(t)
}

// dialOnSamePoller is dial for another connection of the same poller.
func (f *pollFixture) dialOnSamePoller(t testing.TB, other *polled) *polled {
	t.Helper()
	for {
		p := f.dial(t)
		if p.c.poll.by == other.c.poll.by {
			return p
		}
		p.Close()
	}
}

// hold stops the goroutine that reads the connection, in the handler, until resume.
func (f *pollFixture) hold(t testing.TB, p *polled, key int16) (resume func()) {
	t.Helper()
	p.send(t, frame(key, 3, gate, nil))
	<-f.entered
	return func() { f.open <- struct{}{} }
}

func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// await waits for a state of the connection; cond runs with its lock held.
func (p *polled) await(t testing.TB, what string, cond func(*conn) bool) {
	t.Helper()
	await(t, what, func() bool {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		return cond(p.c)
	})
}

func (p *polled) awaitRole(t testing.TB, role connlife.Reader) {
	t.Helper()
	p.await(t, "the reading role", func(c *conn) bool { return c.life.Reader() == role })
}

// state describes the connections, for a message about one that hangs.
func (f *pollFixture) state() string {
	var b strings.Builder
	f.Server.mu.Lock()
	conns := f.snapshot()
	f.Server.mu.Unlock()
	fmt.Fprintf(&b, "%+v\n", f.Stats())
	for c := range conns {
		var unread, unsent int
		_ = c.sock.control(func(fd uintptr) { // a closed connection has no state
			unread, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
			unsent, _ = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ)
		})
		c.mu.Lock()
		q := &c.queue
		fmt.Fprintf(&b, "%s: %d bytes to read, %d unsent; %v; "+
			"%d requests, %d without an answer, %d Produce of %d bytes; %d bytes to write, left %d; oldest ready %t\n",
			c.peer, unread, unsent, c.life.State,
			q.n, q.unready, q.produces, q.produceBytes, q.unwritten, len(c.out.left), q.oldest != nil && q.oldest.ready)
		c.mu.Unlock()
	}
	stacks := make([]byte, 1<<20)
	b.Write(stacks[:runtime.Stack(stacks, true)])
	return b.String()
}

func (c *client) tcp() *net.TCPConn { return c.Conn.(*net.TCPConn) }

// wantClosed is client.wantClosed; a timeout means that the connection is still open.
func (p *polled) wantClosed(t testing.TB) {
	t.Helper()
	if n, err := p.Read(make([]byte, 1)); err == nil || n > 0 || isTimeout(err) {
		t.Fatalf("%d bytes and %v instead of a closed connection", n, err)
	}
}

func (p *polled) closeWrite(t testing.TB) {
	t.Helper()
	must(t, p.tcp().CloseWrite())
}

// reset closes the connection so that the server sees a broken one.
func (p *polled) reset(t testing.TB) {
	t.Helper()
	must(t, p.tcp().SetLinger(0))
	p.Close()
}

// arrived waits until n bytes are in the server's socket.
func (p *polled) arrived(t testing.TB, n int) {
	t.Helper()
	await(t, "bytes in the socket", func() bool {
		var have int
		err := p.c.sock.control(func(fd uintptr) { have, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		return err == nil && have >= n
	})
}

// byPoller reports whether the poller handles the request.
func byPoller(r *Request) bool { return r.commits == &r.conn.poll.by.loop.Load().batch }

func (f *pollFixture) awaitNoConnection(t testing.TB) { t.Helper(); f.awaitConnections(t, 0) }

func (f *pollFixture) awaitConnections(t testing.TB, n int) {
	t.Helper()
	await(t, "the end of connections", func() bool { return f.Stats().Connections == n })
}
