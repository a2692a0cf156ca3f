package link

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/chronik-io/chronik/internal/link/frame"
)

// Handler serves the lane of metadata for other brokers.
type Handler interface {
	// Message is called by the connection's reader for each message, in order. It must not block.
	// body belongs to the handler.
	Message(from Hello, method uint16, body []byte)
	// Request handles a request, on a goroutine of its own unless it is urgent. ctx ends when the
	// sender stops waiting, or with the connection. An error reaches the sender as a *RemoteError.
	// The handler must not keep body.
	Request(ctx context.Context, from Hello, method uint16, body []byte) ([]byte, error)
}

// maxHandling bounds the requests of one connection that are handled at a time; others are answered
// with CodeBusy.
const maxHandling = 256

// serveMeta serves an accepted connection of the lane of metadata until it ends.
func (l *Links) serveMeta(c *Conn) {
	var out outbox
	c.Start(&out)
	ctx, cancel := context.WithCancel(l.ctx)
	var handlers sync.WaitGroup
	free := make(chan struct{}, maxHandling)
	in := inbox{conn: c, budget: l.inbound, urgent: l.opts.Urgent}
	for {
		m, err := in.next()
		if err != nil {
			break
		}
		if m.kind == frame.MS {
			if !m.dropped {
				l.opts.Handler.Message(c.peer, m.Method, m.body)
			}
			in.release(&m)
			continue
		}
		if m.urgent {
			body, err := l.opts.Handler.Request(ctx, c.peer, m.Method, m.body)
			respond(c, &out, &m, body, err)
			continue
		}
		select {
		case free <- struct{}{}:
		default:
			m.dropped = true
		}
		if m.dropped {
			in.release(&m)
			respond(c, &out, &m, nil, errBusy())
			continue
		}
		handlers.Go(func() {
			defer func() { <-free }()
			ctx, cancel := context.WithTimeout(ctx, m.wait())
			body, err := l.opts.Handler.Request(ctx, c.peer, m.Method, m.body)
			cancel()
			respond(c, &out, &m, body, err)
			in.release(&m)
		})
	}
	in.close()
	cancel()
	out.close()
	handlers.Wait()
}

// respond queues the response to a request.
func respond(c *Conn, out *outbox, to *inbound, body []byte, err error) {
	m := &outgoing{kind: kindResponse, id: to.ID, body: body}
	if len(body) > frame.MaxMessage && err == nil {
		err = &RemoteError{CodeSize, fmt.Sprintf("the response has %d bytes, at most %d are allowed", len(body), frame.MaxMessage)}
	}
	if err != nil {
		remote := &RemoteError{CodeFailed, err.Error()}
		if e := (*RemoteError)(nil); errors.As(err, &e) {
			remote.Code = e.Code
		}
		m.method, m.failed, m.body = remote.Code, true, []byte(remote.Text)
	}
	m.hasten(to.urgent)
	if !out.add(m) {
		// Responses that the peer does not read fill the queue. A short one may fit; if it does
		// not, the sender's own time ends its wait.
		busy := errBusy()
		m = &outgoing{kind: kindResponse, id: to.ID, method: busy.Code, failed: true, body: []byte(busy.Text)}
		if !out.add(m) {
			return
		}
	}
	c.Kick()
}

func errBusy() *RemoteError {
	return &RemoteError{CodeBusy, "the broker handles too many requests, or too many bytes of them"}
}
