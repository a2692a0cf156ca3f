package stream

import (
	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/link/frame"
)

// Conn is a connection for replica streams, as package link provides it. Next, Peek, Payload and
// Discard belong to one goroutine. The reader must not stay away for longer than 500 ms.
type Conn interface {
	// Broker and BrokerEpoch are the id and the broker epoch that the other end stated.
	Broker() int32
	BrokerEpoch() int64
	// Version is the version of frames that both ends have agreed on.
	Version() uint8
	// Buffered reports whether Next, Payload and Discard do not wait.
	Buffered() bool
	// Next waits for the next frame. An error ends the connection.
	Next() (frame.Header, error)
	// Peek returns the first n bytes of the payload, unverified.
	Peek(n int) ([]byte, error)
	// Payload reads and verifies the payload. The caller releases the buffer.
	Payload() (*bufpool.Buffer, error)
	// Discard drops the payload.
	Discard() error
	// Start sets what the connection sends. It is called once.
	Start(s Source)
	// Push sends what the Source has, on the caller's goroutine, without blocking. Kick lets the
	// connection's own goroutine send it.
	Push()
	Kick()
	// Close ends the connection: Next returns an error.
	Close()
}

// Source provides what a connection sends.
type Source interface {
	// Fill adds frames to v until nothing is pending or v is full. It runs on one goroutine at a
	// time, and must not block or call Push or Kick.
	Fill(v Vector)
}

// Vector collects frames for one write.
type Vector interface {
	// Full reports whether no more frames should be added.
	Full() bool
	// Begin returns space for n bytes of a payload, to append to.
	Begin(n int) []byte
	// End adds a frame with fields, which began with Begin, and body, which must not change until
	// held is released.
	End(k frame.Kind, flags uint8, fields []byte, held Releaser, body ...[]byte)
}

// Releaser is memory that a frame refers to.
type Releaser = interface{ Release() }

// Links dials other brokers.
type Links interface {
	// Follow keeps a connection to a broker until the Dialer is closed, and calls run for each
	// connection. It looks up the broker's address for each dial.
	Follow(broker int32, run func(Conn)) Dialer
}

// Dialer keeps a connection. Close ends it and waits for run.
type Dialer interface{ Close() }

// entry is a value of a frame that is a list.
type entry interface{ AppendTo(dst []byte) []byte }

// list adds frames with entries, and returns the empty list.
func list[T entry](v Vector, k frame.Kind, entries []T) []T {
	for most := k.MaxEntries(); len(entries) > 0; {
		n := min(len(entries), most)
		p := v.Begin(n * k.EntrySize())
		for i := range entries[:n] {
			p = entries[i].AppendTo(p)
		}
		v.End(k, 0, p, nil)
		if n == len(entries) {
			break
		}
		entries = entries[n:]
	}
	return entries[:0]
}

// each calls fn for every entry of a payload.
func each[T any](payload []byte, size int, parse func([]byte) (T, error), fn func(T)) error {
	for ; len(payload) >= size; payload = payload[size:] {
		x, err := parse(payload)
		if err != nil {
			return err
		}
		fn(x)
	}
	return nil
}
