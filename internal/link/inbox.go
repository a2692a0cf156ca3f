package link

import (
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/link/frame"
)

// inbound is a whole message that arrived.
type inbound struct {
	frame.Piece
	kind    frame.Kind
	failed  bool
	body    []byte
	urgent  bool  // see Options.Urgent
	dropped bool  // there was no memory for it; it has no body
	charged int64 // bytes of the budget that it holds
}

// inbox joins the pieces of messages. It belongs to the reader of a connection. Of each kind at
// most one message is incomplete, since the sender finishes one before it begins another that needs
// several pieces.
type inbox struct {
	conn   *Conn
	budget *bufpool.Budget
	urgent func(method uint16) bool
	parts  map[frame.Kind]*inbound
}

// next waits for a whole message. Its memory is charged to the budget until release, unless it is
// one piece that the reader uses before it reads the next one. The error means that the connection
// has ended.
func (in *inbox) next() (inbound, error) {
	for {
		h, err := in.conn.Next()
		if err != nil {
			return inbound{}, err
		}
		b, err := in.conn.Payload()
		if err != nil {
			return inbound{}, err
		}
		m, err := in.add(h, b.Bytes())
		b.Release()
		if err != nil {
			return inbound{}, in.conn.fail(err)
		}
		if m != nil {
			return *m, nil
		}
	}
}

// add takes a piece, and returns the message if this is its last one.
func (in *inbox) add(h frame.Header, payload []byte) (*inbound, error) {
	p, body, err := frame.ParsePiece(payload, h.Flags)
	if err != nil {
		return nil, err
	}
	m, single := in.parts[h.Kind], h.Flags&(frame.FlagMore|frame.FlagNext) == 0
	switch {
	case single || m == nil && p.Offset == 0:
		m = &inbound{Piece: p, kind: h.Kind, failed: h.Flags&frame.FlagFailed != 0}
		m.urgent = h.Kind == frame.RQ && single && in.urgent(p.Method)
		if held := !single || h.Kind == frame.RQ && !m.urgent; held {
			if in.budget.TryAcquire(int64(p.Total)) {
				m.charged = int64(p.Total)
			} else {
				m.dropped = true
			}
		}
	case m == nil || m.ID != p.ID || m.Total != p.Total || p.Offset != m.Offset:
		in.release(m)
		delete(in.parts, h.Kind)
		return nil, fmt.Errorf("%w: piece %+v does not continue its message", frame.ErrMalformed, p)
	}
	m.Offset = p.Offset + uint32(len(body)) // of the next piece
	if !m.dropped {
		m.body = append(m.body, body...) // grows with what has arrived, whatever Total claims
	}
	if single {
		return m, nil
	}
	if h.Flags&frame.FlagMore == 0 {
		delete(in.parts, h.Kind)
		return m, nil
	}
	if in.parts == nil {
		in.parts = make(map[frame.Kind]*inbound)
	}
	in.parts[h.Kind] = m
	return nil, nil
}

// release returns a message's memory to the budget.
func (in *inbox) release(m *inbound) {
	if m != nil {
		in.budget.Release(m.charged)
		m.charged = 0
	}
}

// close releases what is incomplete.
func (in *inbox) close() {
	for _, m := range in.parts {
		in.release(m)
	}
	in.parts = nil
}

// wait is how long the sender of a request waits for its response.
func (m *inbound) wait() time.Duration { return time.Duration(m.Timeout) * time.Millisecond }
