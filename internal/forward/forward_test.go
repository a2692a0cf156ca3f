package forward

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	produce = protocol.KeyProduce
	fetch   = 1
	listing = 16 // asks brokers 2 and 3
)

// The first byte of an answer that Lost gives.
const lostUnsent, lostSent = 'u', 's'

// world is a broker that passes the requests of clients to others: to the one that is their client
// id. A body that begins with "silent" has no answer.
type world struct {
	testing.TB
	f       *Forwarder
	server  *network.Server
	addr    string
	targets map[int32]*peer
	here    func(*network.Request) // handles the requests of client id 1
}

// peer is another broker. It answers requests with their bodies, unless it holds them.
type peer struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	got   chan string // bodies
	hold  chan struct{}
	ended chan struct{} // a value for each tunnel whose client has gone
}

func newWorld(t testing.TB, change func(*Options)) *world {
	w := &world{TB: t, targets: map[int32]*peer{2: newPeer(t), 3: newPeer(t)}, here: func(r *network.Request) { respond(r, "here") }}
	o := Options{Dial: func(ctx context.Context, broker int32, _ *network.Adopted) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", w.targets[broker].Addr().String())
	}, Lost: func(r *network.Request, sent bool) {
		if sent {
			respond(r, string(rune(lostSent)))
		} else {
			respond(r, string(rune(lostUnsent)))
		}
	}}
	if change != nil {
		change(&o)
	}
	w.f = New(o)
	table, err := protocol.NewTable(kmsg.RequestForKey, protocol.API{Key: produce, Min: 3, Max: 3},
		protocol.API{Key: fetch, Min: 4, Max: 4}, protocol.API{Key: listing}, protocol.API{Key: protocol.KeyApiVersions})
	if err != nil {
		t.Fatal(err)
	}
	if w.server, err = network.New(network.Options{Handler: w, Table: table}); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = ln.Addr().String()
	if err := w.server.Serve(&network.Listener{Name: "one", Forward: true}, ln); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, p := range w.targets {
			p.end()
		}
		_ = w.server.Close()
		w.f.Close()
		if n := w.f.pool.Outstanding(); n != 0 {
			t.Errorf("%d buffers were not released", n)
		}
		for _, x := range w.f.Targets() {
			if x.Tunnels != 0 || w.f.target(x.Broker).bytes.Load() != 0 {
				t.Errorf("left over: %+v", x)
			}
		}
	})
	return w
}

// until waits for a state.
func (w *world) until(what string, is func() bool) {
	w.Helper()
	for end := time.Now().Add(time.Minute); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			w.Fatalf("never: %s", what)
		}
	}
}

// noneWait waits until no Produce request counts for a broker. That is after its client has the
// answer.
func (w *world) noneWait(broker int32) {
	w.Helper()
	w.until("no request waits", func() bool {
		w.f.mu.Lock()
		defer w.f.mu.Unlock()
		for t := range w.f.open {
			if t.to.id == broker && t.produces.Load() > 0 {
				return false
			}
		}
		return true
	})
}

func respond(r *network.Request, body string) { r.RespondRaw([][]byte{[]byte(body)}, nil) }

func (w *world) Handle(r *network.Request) {
	to, err := strconv.Atoi(r.ClientID)
	switch {
	case err != nil:
		r.Abort(err)
	case r.Key == listing:
		if !r.MayBlock() {
			r.HandOver()
			return
		}
		bodies, err := w.f.Ask(r.Client(), r, []int32{2, 3})
		if err != nil {
			respond(r, "failed")
			return
		}
		respond(r, string(bytes.Join(bodies, []byte("+"))))
	case to == 1:
		w.here(r)
	case w.f.Pass(r, int32(to), bytes.HasPrefix(r.Body, []byte("silent"))) != nil:
		w.f.Refuse(r, int32(to))
	}
}

func newPeer(t testing.TB) *peer {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{Listener: ln, got: make(chan string, 100), hold: make(chan struct{}), ended: make(chan struct{}, 100)}
	close(p.hold)
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, nc)
			p.mu.Unlock()
			go p.serve(nc)
		}
	}()
	return p
}

// hang makes the peer hold requests until release is called.
func (p *peer) hang() (release func()) {
	ch := make(chan struct{})
	p.mu.Lock()
	p.hold = ch
	p.mu.Unlock()
	return sync.OnceFunc(func() { close(ch) })
}

func (p *peer) serve(nc net.Conn) {
	defer nc.Close()
	in := bufio.NewReader(nc)
	for {
		key, id, body, err := readRequest(in)
		if err != nil {
			select {
			case p.ended <- struct{}{}:
			default: // the test does not ask
			}
			return
		}
		p.mu.Lock()
		hold := p.hold // of this request, not of the time when the one before was answered
		p.mu.Unlock()
		select {
		case p.got <- string(body[:min(len(body), 20)]):
		default: // the test does not ask
		}
		if bytes.HasPrefix(body, []byte("silent")) {
			continue
		}
		if key == fetch && bytes.HasPrefix(body, []byte("park")) { // until its client has gone
			_, _ = in.Peek(1)
		} else {
			<-hold
		}
		_, _ = nc.Write(answerFrame(id, body)) // the other end may have gone
	}
}

func (p *peer) end() {
	_ = p.Close()
	p.breakAll()
}

// breakAll ends all tunnels.
func (p *peer) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, nc := range p.conns {
		_ = nc.Close()
	}
	p.conns = nil
}

func readRequest(in *bufio.Reader) (key int16, id uint32, body []byte, err error) {
	var length [4]byte
	if _, err = io.ReadFull(in, length[:]); err != nil {
		return 0, 0, nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err = io.ReadFull(in, frame); err != nil {
		return 0, 0, nil, err
	}
	return int16(binary.BigEndian.Uint16(frame)), binary.BigEndian.Uint32(frame[4:]), frame[10+binary.BigEndian.Uint16(frame[8:]):], nil
}

func answerFrame(id uint32, body []byte) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
	return append(binary.BigEndian.AppendUint32(p, id), body...)
}

// conn is a client's connection.
type conn struct {
	net.Conn
	t    testing.TB
	in   *bufio.Reader
	last uint32
}

func (w *world) client() *conn {
	w.Helper()
	nc, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.Fatal(err)
	}
	if err := nc.SetDeadline(time.Now().Add(time.Minute)); err != nil { // a fault fails the test, and doesn't hang it
		w.Fatal(err)
	}
	c := &conn{Conn: nc, t: w, in: bufio.NewReader(nc)}
	w.Cleanup(func() { _ = nc.Close() })
	return c
}

// send sends a request for a broker.
func (c *conn) send(key int16, to, body string) {
	c.t.Helper()
	c.last++
	version := map[int16]uint16{produce: 3, fetch: 4}[key]
	p := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(key))
	p = binary.BigEndian.AppendUint16(p, version)
	p = binary.BigEndian.AppendUint32(p, c.last)
	p = append(binary.BigEndian.AppendUint16(p, uint16(len(to))), to...)
	p = append(p, body...)
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	if _, err := c.Write(p); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads the answer to a request, by its number.
func (c *conn) answer(number uint32) string {
	c.t.Helper()
	var head [8]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		c.t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(c.in, body); err != nil {
		c.t.Fatal(err)
	}
	if id := binary.BigEndian.Uint32(head[4:]); id != number {
		c.t.Fatalf("answer to %d, want %d", id, number)
	}
	return string(body)
}

func (c *conn) want(number uint32, body string) {
	c.t.Helper()
	if got := c.answer(number); got != body {
		c.t.Fatalf("answer %d: %.40q, want %.40q", number, got, body)
	}
}

// closed waits until the broker has closed the connection.
func (c *conn) closed() {
	c.t.Helper()
	if _, err := c.in.ReadByte(); err == nil {
		c.t.Fatal("an answer instead of the end")
	}
}

func TestAnswersKeepTheOrderOfTheConnection(t *testing.T) {
	w := newWorld(t, nil)
	c := w.client()
	for i := range 50 {
		c.send(produce, "2", strconv.Itoa(i))
	}
	for i := range 50 {
		c.want(uint32(i+1), strconv.Itoa(i))
	}
	c.send(fetch, "3", "f")
	c.send(produce, "2", "p")
	c.want(51, "f")
	c.want(52, "p")
	c.send(produce, "1", "p")
	c.want(53, "here")
}

// Large requests and answers do not fit into a socket.
func TestLargeRequestsAndAnswers(t *testing.T) {
	w := newWorld(t, nil)
	c, large := w.client(), string(bytes.Repeat([]byte("large"), 1<<20))
	release := w.targets[2].hang()
	go release()
	c.send(produce, "2", "small")
	c.send(produce, "2", large)
	c.want(1, "small")
	c.want(2, large)
	c.send(fetch, "2", large)
	c.want(3, large)
}

// A tunnel that breaks while it reads an answer loses the request, whose memory may have the next
// request of another client by then. The answer's memory is that of the client that asked.
func TestTheMemoryOfAnAnswerIsItsClients(t *testing.T) {
	answers := bufpool.NewShares[netip.Prefix](1<<20, 1<<10)
	w := newWorld(t, func(o *Options) { o.Answers = answers })
	release := w.targets[2].hang()
	defer release()
	c := w.client()
	c.send(fetch, "2", "one")
	<-w.targets[2].got
	tunnels := w.f.tunnels()
	if len(tunnels) != 1 {
		t.Fatalf("%d tunnels", len(tunnels))
	}
	on := tunnels[0]
	on.mu.Lock()
	p := *on.waiting[0]
	on.mu.Unlock()
	p.r = new(network.Request) // as it was recycled
	if err := on.acquire(&p, 100); err != nil || p.holder.Origin != netip.MustParsePrefix("127.0.0.1/32") || !p.holder.New {
		t.Errorf("%+v holds the memory: %v", p.holder, err)
	}
	if used := answers.Stats().Used; used != 100 {
		t.Errorf("%d bytes are held", used)
	}
	answers.Return(p.holder, 100)
	release()
	c.want(1, "one")
}

func TestOneClientDoesNotWaitForAnother(t *testing.T) {
	w := newWorld(t, nil)
	release := w.targets[2].hang()
	slow, other := w.client(), w.client()
	slow.send(produce, "2", "slow")
	<-w.targets[2].got
	for i := range 10 {
		other.send(produce, "3", "quick")
		other.want(uint32(i+1), "quick")
	}
	release()
	slow.want(1, "slow")
}

// A broken tunnel fails the requests on it, and no others.
func TestABrokenTunnelFailsItsRequests(t *testing.T) {
	w := newWorld(t, nil)
	release := w.targets[2].hang()
	defer release()
	release3 := w.targets[3].hang()
	c, other := w.client(), w.client()
	c.send(produce, "2", "one")
	c.send(produce, "2", "two")
	other.send(produce, "3", "other")
	<-w.targets[2].got // only then is there a tunnel to break
	<-w.targets[3].got
	w.until("one and two were passed", func() bool { return w.f.target(2).passed.Load() == 2 })
	w.targets[2].breakAll()
	c.want(1, string(rune(lostSent)))
	c.want(2, string(rune(lostSent)))
	release3()
	other.want(1, "other")
	release()
	c.send(produce, "2", "three") // on another tunnel
	c.want(3, "three")
	if got := w.f.Targets()[0]; got.Passed != 3 || got.Lost != 2 || got.Refused != 0 {
		t.Errorf("%+v", got)
	}
}

func TestABrokerThatIsNotThere(t *testing.T) {
	w := newWorld(t, nil)
	w.targets[2].end()
	c := w.client()
	c.send(produce, "2", "one")
	c.want(1, string(rune(lostUnsent)))
	c.send(produce, "3", "two")
	c.want(2, "two")
	got := w.f.Targets()[0]
	if got.Refused != 1 || got.Err == "" || got.Failing.IsZero() {
		t.Errorf("%+v", got)
	}
}

// Records with acks=0 have no answer that could say that they are lost: the connection ends.
func TestSilentRequests(t *testing.T) {
	w := newWorld(t, nil)
	c := w.client()
	c.send(produce, "2", "silent one")
	if got := <-w.targets[2].got; got != "silent one" {
		t.Fatal(got)
	}
	c.send(produce, "2", "two")
	c.want(2, "two")
	w.targets[2].breakAll()
	c.closed()
}

// What a client has sent before it closes its connection arrives.
func TestTheLastRequestsOfAClientArrive(t *testing.T) {
	w := newWorld(t, nil)
	for range 20 {
		c := w.client()
		c.send(produce, "2", "silent")
		c.send(fetch, "2", "commit")
		_ = c.Close()
		if first, second := <-w.targets[2].got, <-w.targets[2].got; first != "silent" || second != "commit" {
			t.Fatal(first, second)
		}
		<-w.targets[2].ended
	}
}

// A request that waits at the other broker ends when its client has gone.
func TestAClientThatHangsUp(t *testing.T) {
	w := newWorld(t, nil)
	c := w.client()
	c.send(fetch, "2", "park")
	<-w.targets[2].got
	_ = c.Close()
	<-w.targets[2].ended
}

// While the first connection to another broker is made, the request waits for that broker.
func TestAFirstConnectionIsWaitedFor(t *testing.T) {
	dialing := make(chan struct{})
	w := newWorld(t, func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context, broker int32, a *network.Adopted) (net.Conn, error) {
			dialing <- struct{}{}
			<-dialing
			return dial(ctx, broker, a)
		}
	})
	c := w.client()
	c.send(produce, "2", "one")
	<-dialing
	list := w.server.Waits(view.MaxWaits).List
	if len(list) != 1 || len(list[0].Steps) != 1 || list[0].Steps[0].Step != view.StepBrokers ||
		!slices.Equal(list[0].Steps[0].Brokers, []int32{2}) {
		t.Errorf("%+v", list)
	}
	dialing <- struct{}{}
	c.want(1, "one")
}

func TestAStopEndsWhatWaits(t *testing.T) {
	w := newWorld(t, nil)
	c := w.client()
	c.send(fetch, "2", "park")
	<-w.targets[2].got
	w.f.Release()
	c.want(1, "park")
}

// A stop does not wait until other brokers answer requests that wait for replicas, and it does not
// cut off those that are answered meanwhile.
func TestAStopGivesUpWhatWaits(t *testing.T) {
	w := newWorld(t, nil)
	c := w.client()
	for i, body := range []string{"one", "two"} {
		release := w.targets[2].hang()
		c.send(produce, "2", body)
		<-w.targets[2].got
		w.f.Release() // for the first time with this one
		release()
		c.want(uint32(i+1), body)
		w.noneWait(2)
	}
	defer w.targets[2].hang()()
	c.send(produce, "2", "three")
	<-w.targets[2].got
	w.f.Release()
	w.f.Release()
	c.want(3, string(rune(lostSent)))
	c.send(fetch, "2", "four") // as a commit of offsets: the other broker does not answer when the client has gone
	<-w.targets[2].got
	w.f.Release()
	w.f.Release()
	c.want(4, string(rune(lostSent)))
}

// Produce requests do not overtake those that another broker has.
func TestProducesDoNotOvertake(t *testing.T) {
	w := newWorld(t, nil)
	release := w.targets[2].hang()
	here := make(chan *network.Request, 1)
	var overtakes atomic.Bool
	w.here = func(r *network.Request) {
		if w.f.Elsewhere(r) {
			respond(r, "overtakes")
			overtakes.Store(true)
			return
		}
		r.WaitsAt(network.At(view.WaitStep{}), "")
		here <- r
	}
	c := w.client()
	c.send(produce, "2", "one")
	<-w.targets[2].got
	c.send(produce, "3", "two")
	c.send(produce, "1", "three")
	w.until("two was refused", func() bool { return w.f.target(3).refused.Load() == 1 })
	w.until("three overtakes", overtakes.Load)
	release()
	c.want(1, "one")
	c.want(2, string(rune(lostUnsent)))
	c.want(3, "overtakes")
	w.noneWait(2)
	c.send(produce, "1", "four")
	four := <-here
	c.send(produce, "2", "five")
	w.until("five was refused", func() bool { return w.f.target(2).refused.Load() == 1 })
	respond(four, "four")
	c.want(4, "four")
	c.want(5, string(rune(lostUnsent)))
	c.send(produce, "2", "six")
	c.want(6, "six")
}

// What a client has sent behind a Produce that ends its connection is not passed on, also when the
// earlier ones have their answers.
func TestNothingOvertakesAnAbortedProduce(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Lost = func(r *network.Request, _ bool) { r.Abort(errors.New("lost")) } })
	release := w.targets[2].hang()
	c := w.client()
	c.send(produce, "2", "one")
	<-w.targets[2].got
	c.send(produce, "3", "two")
	w.until("two was refused", func() bool { return w.f.target(3).refused.Load() == 1 })
	c.send(produce, "3", "three")
	release()
	c.want(1, "one")
	w.until("the connection has ended", func() bool { return len(w.server.Connections()) == 0 })
	if n := w.f.target(3).passed.Load(); n != 0 {
		t.Errorf("%d were passed on", n)
	}
}

// Requests of all clients for one broker take a bounded part of the memory.
func TestBytesForABrokerAreBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bytes = 1000 })
	release := w.targets[2].hang()
	a, b := w.client(), w.client()
	a.send(produce, "2", string(make([]byte, 2000))) // alone, it may be larger
	<-w.targets[2].got
	b.send(produce, "2", "more")
	b.want(1, string(rune(lostUnsent)))
	b.send(produce, "3", "other")
	b.want(2, "other")
	release()
	a.answer(1)
	w.noneWait(2)
	b.send(produce, "2", "again")
	b.want(3, "again")
}

func TestAskingAllBrokers(t *testing.T) {
	w := newWorld(t, nil)
	c := w.client()
	c.send(listing, "1", "x")
	c.want(1, "x+x")
	w.targets[3].end()
	c.send(listing, "1", "x")
	c.want(2, "failed")
}

// An answer that no request waits for ends the tunnel.
func TestAWrongAnswer(t *testing.T) {
	w := newWorld(t, nil)
	release := w.targets[2].hang()
	defer release()
	c := w.client()
	c.send(produce, "2", "one")
	<-w.targets[2].got
	w.targets[2].mu.Lock()
	_, err := w.targets[2].conns[0].Write(answerFrame(77, []byte("wrong")))
	w.targets[2].mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	c.want(1, string(rune(lostSent)))
}

// Random clients and breaks: each request has one answer, in order.
func TestRandomBreaks(t *testing.T) {
	w := newWorld(t, nil)
	var clients sync.WaitGroup
	for i := range 20 {
		clients.Go(func() {
			c := w.client()
			for n := range uint32(100) {
				to := []string{"2", "3"}[(uint32(i)+n/10)%2]
				c.send(produce, to, strconv.Itoa(int(n)))
				if n%5 == 4 {
					for k := n - 4; k <= n; k++ {
						if got := c.answer(k + 1); got != strconv.Itoa(int(k)) && !slices.Contains([]byte{lostSent, lostUnsent}, got[0]) {
							t.Errorf("answer %d: %q", k+1, got)
							return
						}
					}
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { clients.Wait(); close(over) }()
	for n := int32(0); ; n++ {
		select {
		case <-over:
			return
		case <-w.targets[2+n%2].got: // after some more requests
			w.targets[2+n%2].breakAll()
		}
	}
}
