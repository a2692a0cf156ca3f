package forward

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

const (
	// readBuffer is what a tunnel reads at a time, unless it reads the rest of an answer. Thousands
	// of tunnels have one.
	readBuffer = 1 << 10
	// maxAnswer is the largest answer in bytes; a broker that sends a larger one is broken.
	maxAnswer = 1 << 30
	// smallFrame is the largest request, other than Produce, that is kept until its answer comes.
	// Larger ones count against a budget that other clients need, and may wait for long.
	smallFrame = 16 << 10
	// finishTime is how long the other broker may take to answer a client that has gone.
	finishTime = 30 * time.Second
)

// passed is a request on a tunnel. Its fields may be read after the answer, but not r's. While it
// is on the tunnel, fail may answer it, so that r may be used under tunnel.mu only.
type passed struct {
	r      *network.Request
	holder bufpool.Holder[netip.Prefix] // of the answer
	key    int16
	id     int32
	size   int64
	silent bool       // it has no answer
	asked  chan reply // of Ask, capacity 1: answer or fail sends once; nil for others
	unhang func() bool

	// Guarded by tunnel.mu.
	frame *bufpool.Buffer // of what is not written yet
	off   int             // bytes that were written, with the length
}

// reply is the answer to a request of Ask.
type reply struct {
	body []byte
	err  error
}

// tunnel is a connection to another broker for a connection of a client.
type tunnel struct {
	f        *Forwarder
	to       *target
	nc       net.Conn
	raw      rawWriter
	hangUp   func(error) // closes the client's connection
	readers  network.Readers
	produces atomic.Int64 // Produce requests without an answer
	ctx      context.Context
	cancel   context.CancelFunc

	mu        sync.Mutex
	waiting   []*passed // sent, or in out, without an answer, in order
	out       []*passed // not written completely
	writing   bool      // flush runs
	finishing bool      // nothing more is sent
	dead      bool
	silent    bool    // a request without an answer was sent
	released  *passed // the first that waited when release was last called
}

// errStops is why a broker that stops gives a tunnel up.
var errStops = errors.New("this broker stops, and did not wait for the answer any longer")

// newTunnel returns the tunnel of the connection of r.
func newTunnel(f *Forwarder, to *target, nc net.Conn, r *network.Request) *tunnel {
	t := &tunnel{f: f, to: to, nc: nc, hangUp: r.Closer(), readers: r.Readers()}
	t.raw.init(nc)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	to.tunnels.Add(1)
	return t
}

func (t *tunnel) usable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.dead && !t.finishing
}

// send sends a request, or reports it as lost.
func (t *tunnel) send(p *passed) {
	if p.key == protocol.KeyProduce {
		t.produces.Add(1)
		t.to.bytes.Add(p.size)
	}
	t.mu.Lock()
	if t.dead || t.finishing {
		t.mu.Unlock()
		t.to.refused.Add(1)
		p.lost(t.f, false, net.ErrClosed)
		t.end(p)
		return
	}
	t.to.passed.Add(1)
	if p.silent {
		t.silent = true
	} else {
		t.waiting = append(t.waiting, p)
	}
	p.frame = p.r.Frame()
	var err error
	if len(t.out) == 0 && t.raw.able() {
		p.off, err = t.raw.try(p.frame.Bytes(), &t.f.pool)
	}
	done := p.off == 4+p.frame.Len()
	if p.key != protocol.KeyProduce {
		p.unhang = t.endWith(p.r) // it may wait for long, and is the only one that waits
	}
	if done {
		t.keepLess(p)
	} else {
		p.frame.Retain()
		t.out = append(t.out, p)
		if !t.writing && err == nil {
			t.writing = true
			t.f.work.Go(t.flush)
		}
	}
	t.mu.Unlock()
	switch {
	case err != nil:
		t.fail(err)
	case done:
		t.written(p)
	}
}

// endWith finishes the tunnel when the request's client has gone, or its session is over. The
// result stops that.
func (t *tunnel) endWith(r *network.Request) (stop func() bool) {
	hungUp := r.OnClose(t.finish)
	if r.Session.Expires.IsZero() {
		return hungUp
	}
	over := time.AfterFunc(time.Until(r.Session.Expires), t.finish)
	return func() bool { over.Stop(); return hungUp() }
}

// written is called when a request was written completely. It may have its answer already.
func (t *tunnel) written(p *passed) {
	if p.silent {
		p.r.RespondNone()
		t.end(p)
	}
}

// keepLess releases the memory of a large request that was written completely, and may wait for
// long. Caller holds mu.
func (t *tunnel) keepLess(p *passed) {
	if p.key != protocol.KeyProduce && p.asked == nil && p.size > smallFrame && len(t.waiting) > 0 && t.waiting[0] == p {
		p.r.ReleaseBody()
	}
}

// flush writes what the socket did not take at once.
func (t *tunnel) flush() {
	writes.Set()
	t.mu.Lock()
	for len(t.out) > 0 && !t.dead {
		p := t.out[0]
		off, frame := p.off, p.frame
		frame.Retain() // fail releases what is in out
		t.mu.Unlock()
		err := t.writeRest(frame.Bytes(), off)
		frame.Release()
		t.mu.Lock()
		if err != nil {
			t.mu.Unlock()
			t.fail(err)
			t.mu.Lock()
			break
		}
		if t.dead {
			break // fail has taken it
		}
		t.out = t.out[1:]
		frame.Release()
		t.keepLess(p)
		t.mu.Unlock()
		t.written(p)
		t.mu.Lock()
	}
	t.writing = false
	finish := t.finishing && !t.dead
	t.mu.Unlock()
	if finish {
		closeWrite(t.nc)
	}
}

// writeRest writes a frame with its length, without the first off bytes.
func (t *tunnel) writeRest(frame []byte, off int) error {
	if off < 4 {
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(frame)))
		if _, err := (&net.Buffers{length[off:], frame}).WriteTo(t.nc); err != nil {
			return fmt.Errorf("write to broker %d: %w", t.to.id, err)
		}
		return nil
	}
	if _, err := t.nc.Write(frame[off-4:]); err != nil {
		return fmt.Errorf("write to broker %d: %w", t.to.id, err)
	}
	return nil
}

// Labels of the goroutines.
var (
	reads  = label.New("forward read", "")
	writes = label.New("forward write", "")
)

// read passes answers on until the tunnel ends.
func (t *tunnel) read() {
	reads.Set()
	in := bufio.NewReaderSize(t.nc, readBuffer)
	var err error
	for err == nil {
		err = t.answer(in)
	}
	t.fail(err)
}

// answer reads one answer.
func (t *tunnel) answer(in *bufio.Reader) error {
	head, err := in.Peek(8)
	if err != nil {
		return fmt.Errorf("read from broker %d: %w", t.to.id, err)
	}
	size, id := int(int32(binary.BigEndian.Uint32(head))), int32(binary.BigEndian.Uint32(head[4:]))
	_, _ = in.Discard(8) // they are buffered
	t.mu.Lock()
	var p *passed
	if len(t.waiting) > 0 {
		p = t.waiting[0]
	}
	t.mu.Unlock()
	if p == nil || p.id != id || size < 4 || size > maxAnswer {
		return fmt.Errorf("broker %d sent an answer of %d bytes to request %d, which none waits for", t.to.id, size, id)
	}
	n := size - 4
	counted := !network.Relays(n - 1)
	if counted {
		if err := t.acquire(p, int64(n)); err != nil {
			return err
		}
	}
	body := t.f.pool.Get(n)
	release := func() {
		body.Release()
		if counted {
			t.f.o.Answers.Return(p.holder, int64(n))
		}
	}
	if _, err := io.ReadFull(in, body.Bytes()); err != nil {
		release()
		return fmt.Errorf("read from broker %d: %w", t.to.id, err)
	}
	t.mu.Lock()
	if t.dead { // the request is lost already
		t.mu.Unlock()
		release()
		return net.ErrClosed
	}
	t.waiting = t.waiting[1:]
	t.mu.Unlock()
	if p.asked != nil {
		p.asked <- reply{body: append([]byte(nil), body.Bytes()...)}
		release()
	} else {
		p.r.Relay(body.Bytes(), release)
	}
	t.end(p)
	return nil
}

// acquire waits for the memory of an answer.
func (t *tunnel) acquire(p *passed, n int64) error {
	return t.readers.Await(t.ctx, func(ctx context.Context) error {
		_, err := t.f.o.Answers.Take(ctx, p.holder, n, n)
		return err
	})
}

// end undoes what send has counted, after the answer.
func (t *tunnel) end(p *passed) {
	if p.unhang != nil {
		p.unhang()
	}
	if p.key == protocol.KeyProduce {
		t.to.bytes.Add(-p.size)
		t.produces.Add(-1)
	}
}

// lost answers a request that has no answer.
func (p *passed) lost(f *Forwarder, sent bool, err error) {
	switch {
	case p.asked != nil:
		p.asked <- reply{err: err}
	default:
		f.o.Lost(p.r, sent)
	}
}

// fail ends the tunnel. The requests on it are lost, and no others.
func (t *tunnel) fail(err error) {
	t.mu.Lock()
	if t.dead {
		t.mu.Unlock()
		return
	}
	t.dead = true
	lost, out, silent := t.waiting, t.out, t.silent
	t.waiting, t.out = nil, nil
	t.mu.Unlock()
	t.cancel()
	_ = t.nc.Close() // a failed close takes nothing back that was promised
	t.f.mu.Lock()
	delete(t.f.open, t)
	t.f.mu.Unlock()
	t.to.tunnels.Add(-1)
	unsent := make(map[*passed]bool, len(out))
	for _, p := range out {
		unsent[p] = p.off == 0 && p != out[0]
		p.frame.Release()
		if p.silent {
			lost = append(lost, p)
		}
	}
	for _, p := range lost {
		t.to.lost.Add(1)
		p.lost(t.f, !unsent[p], err)
		t.end(p)
	}
	if silent { // of some it is not known whether they were handled, and they have no answer to say so
		t.hangUp(fmt.Errorf("broker %d may not have records with acks=0: %w", t.to.id, err))
	}
}

// finish lets the other broker know that the client has gone: it answers what it has, and what it
// keeps waiting for the client ends. Nothing more is sent.
func (t *tunnel) finish() {
	t.mu.Lock()
	now := !t.finishing && !t.dead && !t.writing
	t.finishing, t.silent = true, false
	t.mu.Unlock()
	_ = t.nc.SetReadDeadline(time.Now().Add(finishTime)) // fails on a closed connection only
	if now {
		closeWrite(t.nc)
	}
}

// release ends what may wait for long: it fails the tunnel if the other broker has answered no
// request since the last call, and lets it know before that the client has gone, unless the request
// is a Produce: what comes behind that is passed on still.
func (t *tunnel) release() {
	t.mu.Lock()
	var first *passed
	if len(t.waiting) > 0 {
		first = t.waiting[0]
	}
	still := first == t.released
	t.released = first
	t.mu.Unlock()
	switch {
	case first == nil:
	case still: // a Produce or a commit may wait for replicas, until its own timeout
		t.fail(errStops)
	case first.key != protocol.KeyProduce:
		t.finish()
	}
}

// closeWrite tells the other end that nothing more comes, on TLS and below it.
func closeWrite(nc net.Conn) {
	closed := false
	for {
		if half, ok := nc.(interface{ CloseWrite() error }); ok {
			closed = half.CloseWrite() == nil || closed
		}
		above, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		nc = above.NetConn()
	}
	if !closed {
		_ = nc.Close() // it can't be half open
	}
}
