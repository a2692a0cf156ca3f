package network

import (
	"slices"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
)

// A parked request keeps the reader from the rest of what the client sent, and so from the end of
// the stream. When the rest is handled, OnClose calls at once.
func TestOnCloseIsCalledBehindAParkedRequest(t *testing.T) {
	for name, reset := range map[string]bool{"closed": false, "reset": true} {
		for name2, warm := range map[string]bool{"new": false, "known to its poller": true} {
			t.Run(name+", "+name2, func(t *testing.T) {
				p := newParked()
				f := start(t, func(r *Request) {
					if r.Key == protocol.KeyProduce {
						echo(r)
						return
					}
					p.handle(r)
				}, nil)
				c := dial(t, f.tcp(t))
				if warm {
					c.send(t, frame(protocol.KeyProduce, 3, 1, nil))
					c.want(t, 1)
				}
				c.send(t, slices.Concat(frame(keyMetadata, 1, 1, nil), frame(keyMetadata, 1, 2, nil)))
				r := p.next()
				called := make(chan struct{})
				r.OnClose(func() { close(called) })
				await(t, "the reader behind a parked request", func() bool {
					f.Server.mu.Lock()
					defer f.Server.mu.Unlock()
					for c := range f.conns {
						c.mu.Lock()
						waits := (c.life.Reader() == connlife.Waiting)
						c.mu.Unlock()
						return waits
					}
					return false
				})
				if reset {
					(&polled{client: c}).reset(t)
				} else {
					c.Close()
				}
				select {
				case <-called:
				case <-time.After(patience):
					t.Fatal("the client is gone")
				}
				r.RespondNone()
				if !reset {
					next := make(chan struct{})
					r := p.next()
					r.OnClose(func() { close(next) })
					<-next
					r.RespondNone()
				}
				await(t, "the end of the connection", func() bool { return f.Stats().Connections == 0 })
				for len(p.ch) > 0 {
					p.next().RespondNone()
				}
				f.end(t)
			})
		}
	}
}

// A poller that waits for a processor after the kernel returned events may find connections closed,
// and their ids in use by others.
func TestEventOfAClosedConnectionIsDropped(t *testing.T) {
	f := startPolled(t, echo, nil)
	defer f.end(t)
	old := f.dial(t)
	id, tag, p := old.c.poll.id, old.c.pollTag(), old.c.poll.by
	old.Close()
	f.awaitNoConnection(t)
	for {
		next := f.dial(t)
		t.Cleanup(func() { next.Close() })
		if next.c.poll.by != p {
			continue
		}
		if next.c.poll.id != id {
			t.Fatalf("id %d is not given again, but %d", id, next.c.poll.id)
		}
		if list := p.find([]setEvent{{id, tag, true}}, nil); len(list) > 0 {
			t.Error("the end of one connection is that of another")
		}
		if list := p.find([]setEvent{{id, next.c.pollTag(), true}}, nil); len(list) != 1 || list[0].c != next.c || !list[0].ended {
			t.Error("a connection does not get its event")
		}
		return
	}
}
