package network

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"

	"github.com/chronik-io/chronik/internal/protocol"
)

func adoptedBob(principal string, ended func()) *Adopted {
	return &Adopted{Front: 3, Host: "kafka", Port: 9094, Peer: "10.0.0.7:4711", Software: Software{"kcat", "1"}, Ended: ended,
		Session: Session{Principal: principal, Host: "10.0.0.7", Listener: "one", Mechanism: "PLAIN"}}
}

// An adopted connection is that of its client: its requests have its name, address and listener, no
// limit counts it, and the bytes that were received on it come first.
func TestAnAdoptedConnection(t *testing.T) {
	var count counts
	var ended atomic.Int64
	type seenRequest struct {
		Listener *Listener
		Session  *Session
		Peer     net.Addr
		Software Software
	}
	seen := make(chan seenRequest, 1)
	f, taker := startForBrokers(t, func(r *Request) {
		seen <- seenRequest{r.Listener, r.Session, r.Peer, r.Software}
		echo(r)
	}, &count)
	f.SetLimits(Limits{Connections: 1, PerIP: 1})
	for i, c := range []*client{dial(t, f.tcp(t)), f.pipe.dial()} {
		c.sendAsync(append(hello(), frame(keyMetadata, 1, 1, []byte("one"))...))
		of := adoptedBob("User:bob", func() { ended.Add(1) })
		early := frame(keyMetadata, 1, 0, bytes.Repeat([]byte("early"), 1000))
		if err := f.Adopt(<-taker.conns, early, of); err != nil {
			t.Fatal(err)
		}
		for id := range int32(2) {
			r := <-seen
			c.want(t, id)
			if r.Session.Principal != "User:bob" || r.Session.Host != "10.0.0.7" || r.Session.Listener != "one" || !r.Session.Via ||
				r.Session.Front != 3 || r.Peer.String() != "10.0.0.7:4711" || r.Software.Name != "kcat" {
				t.Errorf("%d: %+v %v %v", i, r.Session, r.Peer, r.Software)
			}
			if l := r.Listener; !l.Forward || l.Brokers || l.AdvertisedHost != "kafka" || l.AdvertisedPort != 9094 {
				t.Errorf("%d: %+v", i, l)
			}
		}
		for id := range int32(2 * detachAfter) { // a poller has it
			c.send(t, frame(protocol.KeyProduce, 3, id, nil))
			<-seen
			c.want(t, id)
		}
		if s := f.Stats(); s.Hijacked != 0 {
			t.Errorf("%+v", s)
		}
		c.send(t, hello()) // it is no listener for brokers
		c.wantClosed(t)
		c.Close()
	}
	f.end(t)
	if ended.Load() != 2 {
		t.Errorf("%d have ended, want 2", ended.Load())
	}
	if count.opened.Load() != 2 || count.closed.Load() != 2 || count.links.Load() != 0 {
		t.Errorf("%d opened, %d closed, %d of them links", count.opened.Load(), count.closed.Load(), count.links.Load())
	}
}

// The connection below an adopted one ends it.
func TestTheOwnerEndsAnAdoptedConnection(t *testing.T) {
	f, taker := startForBrokers(t, echo, &counts{})
	c := dial(t, f.tcp(t))
	c.send(t, hello())
	nc, ended := <-taker.conns, make(chan struct{})
	if err := f.Adopt(nc, nil, adoptedBob("User:bob", func() { close(ended) })); err != nil {
		t.Fatal(err)
	}
	c.send(t, frame(keyMetadata, 1, 1, nil))
	c.want(t, 1)
	_ = nc.Close()
	c.wantClosed(t)
	<-ended
	c.Close()
	f.end(t)
}

func TestWhatIsNotAdopted(t *testing.T) {
	f, taker := startForBrokers(t, echo, &counts{})
	c := dial(t, f.tcp(t))
	defer c.Close()
	c.send(t, hello())
	nc := <-taker.conns
	if err := f.Adopt(nc, nil, adoptedBob("User:\x00", nil)); err == nil {
		t.Error("a principal without a text was adopted")
	}
	other, _ := net.Pipe()
	if err := f.Adopt(other, nil, adoptedBob("User:bob", nil)); err == nil {
		t.Error("a connection of another kind was adopted")
	}
	f.end(t)
	if err := f.Adopt(nc, nil, adoptedBob("User:bob", nil)); err == nil {
		t.Error("adopted after the end")
	}
}
