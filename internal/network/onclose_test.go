package network

import (
	"net"
	"testing"
	"time"
)

// As in Kafka, such a client counts as gone, even if it still reads.
func TestOnCloseIsCalledWhenTheClientHasClosedItsSide(t *testing.T) {
	p := newParked()
	f := start(t, p.handle, nil)
	defer f.end(t)
	c := dial(t, f.tcp(t))
	defer c.Close()
	c.send(t, frame(keyMetadata, 1, 1, nil))
	r := p.next()
	r.OnClose(func() { r.Respond(body("nothing new")) })
	must(t, c.Conn.(*net.TCPConn).CloseWrite())
	if got := c.want(t, 1); string(got) != "nothing new" {
		t.Errorf("%q", got)
	}
	c.wantClosed(t)
}

// TestOnCloseIsCalledWhenTheClientIsGone parks a request and resets its connection: registered
// functions are called, canceled ones are not.
func TestOnCloseIsCalledWhenTheClientIsGone(t *testing.T) {
	p := newParked()
	f := start(t, p.handle, nil)
	c := dial(t, f.tcp(t))
	c.send(t, frame(keyMetadata, 1, 1, nil))
	r := p.next()
	called := make(chan struct{})
	if !r.OnClose(func() { t.Error("called though it was taken back") })() {
		t.Error("the connection is open, and yet the call could not be taken back")
	}
	r.OnClose(func() { close(called) })
	must(t, c.Conn.(*net.TCPConn).SetLinger(0))
	c.Close()
	select {
	case <-called:
	case <-time.After(patience):
		t.Error("the connection was reset long ago")
	}
	r.RespondNone()
	f.end(t)
}
