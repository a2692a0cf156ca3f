package network

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/protocol"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	keyMetadata = int16(3)
	keyEndTxn   = int16(26) // it is quick; versions up to 2 have the header of Metadata 3
)

type handlerFunc func(*Request)

func (f handlerFunc) Handle(r *Request) { f(r) }

// body is an answer of these bytes.
type body []byte

func (body) Key() int16                   { return 0 }
func (body) GetVersion() int16            { return 0 }
func (body) IsFlexible() bool             { return false }
func (b body) AppendTo(dst []byte) []byte { return append(dst, b...) }

// echo answers a request with its own body.
func echo(r *Request) { r.Respond(body(r.Body)) }

// fixture is a server with everything that it must not leak.
type fixture struct {
	*Server
	pool *bufpool.Pool
	pipe *pipeListener
	name Listener
}

func start(t testing.TB, h func(*Request), change func(*Options)) *fixture {
	t.Helper()
	f := &fixture{pool: new(bufpool.Pool), pipe: newPipeListener(), name: Listener{Name: "test"}}
	o := Options{Handler: handlerFunc(h), Table: produceTable(t), Pool: f.pool}
	if change != nil {
		change(&o)
	}
	srv, err := New(o)
	must(t, err)
	f.Server = srv
	must(t, srv.Serve(&f.name, f.pipe))
	return f
}

// tcp makes the server also listen on a socket, and returns its address.
func (f *fixture) tcp(t testing.TB) string {
	t.Helper()
	ln := listen(t)
	must(t, f.Serve(&f.name, ln))
	return ln.Addr().String()
}

// end closes the server and checks that every count is zero.
func (f *fixture) end(t testing.TB) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	s := f.Stats()
	if s.Connections != 0 || s.Orphans != 0 || s.Produce.Used != 0 || s.Other.Used != 0 || s.Produce.Waiting != 0 ||
		s.ProduceArriving.Used != 0 || s.OtherArriving.Used != 0 || s.ProduceArriving.Frames+s.OtherArriving.Frames != 0 ||
		s.Unwritten != 0 || s.Reads.Used != 0 {
		t.Errorf("left over: %+v", s)
	}
	if n := f.pool.Outstanding(); n != 0 {
		t.Errorf("%d buffers were not released", n)
	}
	if n := f.Producers().Absent(); n != 0 {
		t.Errorf("%d absent connections, none is open", n)
	}
}

// pipeListener accepts in-memory connections, which synctest can see waiting.
type pipeListener struct {
	conns  chan net.Conn
	errs   chan error // the next error of Accept
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), errs: make(chan error, 10), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case err := <-l.errs:
		return nil, err
	default:
	}
	select {
	case c := <-l.conns:
		return c, nil
	case err := <-l.errs:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// dial connects a client whose reads and writes fail after a year. A test within synctest would
// otherwise run for ever: each wait for an answer that never comes lets time pass at once, and a
// reader whose request is unanswered checks its deadline again and again.
func (l *pipeListener) dial() *client {
	here, there := net.Pipe()
	_ = here.SetDeadline(time.Now().AddDate(1, 0, 0)) // fails on a closed pipe only
	l.conns <- there
	return &client{Conn: here}
}

type client struct{ net.Conn }

// patience ends a test that waits for an event that never happens, however busy the machine is.
const patience = 2 * time.Minute

func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	return &client{c}
}

// frame builds a request with a null client id.
func frame(key, version int16, correlation int32, body []byte) []byte {
	return frameFrom(nil, key, version, correlation, body)
}

// frameOf is frame of a client with a client id.
func frameOf(clientID string, key, version int16, correlation int32, body []byte) []byte {
	return frameFrom(&clientID, key, version, correlation, body)
}

func frameFrom(clientID *string, key, version int16, correlation int32, body []byte) []byte {
	f := binary.BigEndian.AppendUint32(nil, 0)
	f = binary.BigEndian.AppendUint16(f, uint16(key))
	f = binary.BigEndian.AppendUint16(f, uint16(version))
	f = binary.BigEndian.AppendUint32(f, uint32(correlation))
	if clientID == nil {
		f = append(f, 0xff, 0xff)
	} else {
		f = append(binary.BigEndian.AppendUint16(f, uint16(len(*clientID))), *clientID...)
	}
	if key == protocol.KeyProduce && version >= 9 || key == keyMetadata && version >= 9 || key == protocol.KeyApiVersions && version >= 3 {
		f = append(f, 0)
	}
	f = append(f, body...)
	binary.BigEndian.PutUint32(f, uint32(len(f)-4))
	return f
}

func (c *client) send(t testing.TB, frames ...[]byte) {
	t.Helper()
	for _, f := range frames {
		if _, err := c.Write(f); err != nil {
			t.Fatal(err)
		}
	}
}

// sendAsync sends from a goroutine of its own; missing answers show what was not sent.
func (c *client) sendAsync(frames ...[]byte) {
	go func() {
		for _, f := range frames {
			if _, err := c.Write(f); err != nil {
				return
			}
		}
	}()
}

// receive reads one response with header version 0.
func (c *client) receive() (correlation int32, body []byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return 0, nil, errors.Join(errors.New("cut response"), err)
	}
	return int32(binary.BigEndian.Uint32(body)), body[4:], nil
}

// want reads one response and checks which request it answers.
func (c *client) want(t testing.TB, correlation int32) []byte {
	t.Helper()
	got, body, err := c.receive()
	if err != nil || got != correlation {
		t.Fatalf("answer to %d: got one to %d, %v", correlation, got, err)
	}
	return body
}

// wantClosed reads until the server closes, and checks that no further answer comes.
func (c *client) wantClosed(t testing.TB) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); err == nil || n > 0 {
		t.Fatal("an answer instead of a closed connection")
	}
}

// parked collects requests for a test that answers them later.
type parked struct{ ch chan *Request }

func newParked() parked            { return parked{ch: make(chan *Request, 2000)} }
func (p parked) handle(r *Request) { p.ch <- r }
func (p parked) next() *Request    { return <-p.ch }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
