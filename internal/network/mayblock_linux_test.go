package network

import (
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/protocol"
)

// counted counts what is committed.
type counted struct{ n int }

func (c *counted) Commit(*groupcommit.Batch) { c.n++ }

// A handler may block on the connection's own reader: earlier requests have their answers by then,
// and their commits have run.
func TestAHandlerMayBlockOnItsReader(t *testing.T) {
	answered, late := make(chan struct{}), &counted{}
	f := start(t, func(r *Request) {
		switch r.CorrelationID {
		case 1: // as a Produce with acks=0
			r.Batch().Add(late)
			r.RespondNone()
		case 2:
			r.Respond(body(nil))
		default:
			if !r.MayBlock() {
				t.Error("the reader may not block")
			}
			if late.n != 1 {
				t.Errorf("%d of 1 commits are done", late.n)
			}
			<-answered
			echo(r)
		}
	}, nil)
	defer f.end(t)
	c := dial(t, f.tcp(t))
	defer c.Close()
	c.send(t, slices.Concat(frame(protocol.KeyProduce, 3, 1, nil), frame(protocol.KeyProduce, 3, 2, nil), frame(keyMetadata, 3, 3, nil)))
	c.want(t, 2)
	close(answered)
	c.want(t, 3)
}

// A handler must not block a poller, which other connections wait for.
func TestAHandlerMayNotBlockAPoller(t *testing.T) {
	f := startPolled(t, func(r *Request) {
		if want := !byPoller(r); r.MayBlock() != want {
			t.Errorf("may block: %v", !want)
		}
		echo(r)
	}, nil)
	defer f.end(t)
	c := f.dial(t)
	defer c.Close()
	c.send(t, frame(protocol.KeyProduce, 3, 1, nil))
	c.want(t, 1)
	c.send(t, frame(keyMetadata, 3, 2, nil))
	c.want(t, 2)
}
