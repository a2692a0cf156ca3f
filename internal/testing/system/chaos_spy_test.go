package system

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// gate is between a client and its broker, and between a client and its work. It can be closed for
// a while, like a machine that hangs, and forever, like one that dies.
type gate struct {
	mu    sync.Mutex
	shut  chan struct{} // closed when the gate opens again; nil: it is open
	dead  chan struct{}
	conns map[net.Conn]bool
}

func newGate() *gate { return &gate{dead: make(chan struct{}), conns: map[net.Conn]bool{}} }

// pass waits until the gate is open or closed forever.
func (g *gate) pass() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut == nil {
		return
	}
	select {
	case <-shut:
	case <-g.dead:
	}
}

// hold closes the gate and returns a function that opens it.
func (g *gate) hold() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shut := make(chan struct{})
	g.shut = shut
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.shut = nil
		close(shut)
	}
}

// die cuts all connections and prevents new ones.
func (g *gate) die() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.dead)
	for c := range g.conns {
		c.Close()
	}
}

// spy reads the requests and responses of one member and reports them to the history.
type spy struct {
	gate   *gate
	member *chaosMember
	h      *history
}

func (s *spy) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	s.gate.pass()
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	select {
	case <-s.gate.dead:
		c.Close()
		return nil, net.ErrClosed
	default:
	}
	s.gate.conns[c] = true
	return &spied{Conn: c, spy: s, asked: map[int32]question{}}, nil
}

// spied is a connection with a spy. One goroutine may write while another reads.
type spied struct {
	net.Conn
	spy *spy
	out frames // written
	in  frames // read

	mu    sync.Mutex
	asked map[int32]question
}

// question is a request and the time when it was sent.
type question struct {
	req  kmsg.Request
	sent time.Time
}

func (c *spied) Write(p []byte) (int, error) {
	c.spy.gate.pass()
	c.out.add(p, c.sends)
	return c.Conn.Write(p)
}

func (c *spied) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.spy.gate.pass()
	c.in.add(p[:n], c.receives)
	return n, err
}

func (c *spied) Close() error {
	c.spy.gate.mu.Lock()
	delete(c.spy.gate.conns, c.Conn)
	c.spy.gate.mu.Unlock()
	return c.Conn.Close()
}

// sends handles a request before it is sent.
func (c *spied) sends(frame []byte) {
	key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
	switch kmsg.Key(key) {
	case kmsg.ConsumerGroupHeartbeat, kmsg.SyncGroup:
	default:
		return
	}
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	body := frame[8:]
	if n := int16(binary.BigEndian.Uint16(body)); n >= 0 {
		body = body[n:]
	}
	if body = body[2:]; req.IsFlexible() {
		body = body[1:] // no tags
	}
	if err := req.ReadFrom(body); err != nil {
		c.spy.h.wrong("%s sent a %T that can't be read: %v", c.spy.member.name, req, err)
		return
	}
	c.mu.Lock()
	c.asked[int32(binary.BigEndian.Uint32(frame[4:]))] = question{req, time.Now()}
	c.mu.Unlock()
	if beat, ok := req.(*kmsg.ConsumerGroupHeartbeatRequest); ok {
		c.spy.h.onHeartbeat(c.spy.member, beat)
	}
}

// receives handles a response before the client gets it.
func (c *spied) receives(frame []byte) {
	id := int32(binary.BigEndian.Uint32(frame))
	c.mu.Lock()
	q, ok := c.asked[id]
	delete(c.asked, id)
	c.mu.Unlock()
	if !ok {
		return
	}
	resp := q.req.ResponseKind()
	body := frame[4:]
	if resp.IsFlexible() {
		body = body[1:] // no tags
	}
	if err := resp.ReadFrom(body); err != nil {
		c.spy.h.wrong("%s was sent a %T that can't be read: %v", c.spy.member.name, resp, err)
		return
	}
	switch resp := resp.(type) {
	case *kmsg.ConsumerGroupHeartbeatResponse:
		c.spy.h.onHeartbeatResponse(c.spy.member, q, resp)
	case *kmsg.SyncGroupResponse:
		c.spy.h.onSyncResponse(c.spy.member, q.req.(*kmsg.SyncGroupRequest), resp)
	}
}

// frames reassembles the frames of a stream.
type frames struct{ rest []byte }

// add passes on every complete frame, without its length.
func (f *frames) add(p []byte, each func([]byte)) {
	f.rest = append(f.rest, p...)
	for len(f.rest) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(f.rest))
		if len(f.rest) < n {
			return
		}
		each(f.rest[4:n])
		f.rest = f.rest[n:]
	}
	if len(f.rest) == 0 {
		f.rest = nil
	}
}
