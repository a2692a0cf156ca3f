package limits

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// lastAnswer is how long after the interval a response may arrive.
const lastAnswer = 10 * time.Second

// echoer is one connection of the load. It works like a worker of clients "own", except for the
// responses that it expects.
type echoer struct {
	conn     *wire.Conn
	window   *meter.Window
	recorder *meter.Recorder
	requests *wire.Requests
	// Sizes of a request and of a response in bytes.
	request, answer int
	each            meter.Amount
	// began has the start times of the requests in flight, that of correlation id n at n modulo its
	// length.
	began []time.Duration
	// next is the correlation id of the next request, due that of the next response.
	next, due uint64
}

func newEchoer(ctx context.Context, addr string, c EchoConfig, w *meter.Window, l *meter.Recorder) (*echoer, error) {
	requests, err := wire.NewRequests(wire.Produce{Version: wire.MinProduce, Topic: c.Topic, Acks: -1, Timeout: lastAnswer,
		Value: make([]byte, c.MessageSize)}, c.Pipeline)
	if err != nil {
		return nil, fmt.Errorf("echo: %w", err)
	}
	size, err := requests.Add(0, 0, nil)
	if err != nil {
		return nil, fmt.Errorf("echo: %w", err)
	}
	conn, err := wire.Dial(ctx, addr, nil)
	if err != nil {
		return nil, fmt.Errorf("echo: %w", err)
	}
	e := &echoer{conn: conn, window: w, recorder: l, requests: requests, request: size, answer: answerSize(c.Topic),
		began: make([]time.Duration, c.Pipeline)}
	e.each = meter.Amount{Requests: 1, Records: 1, Payload: int64(c.MessageSize), Wire: int64(e.request + e.answer)}
	return e, nil
}

// run keeps its requests in flight until the interval is over and reads the last responses.
func (e *echoer) run() error {
	// One deadline for all: a server that hangs ends the run.
	if err := e.conn.SetDeadline(time.Now().Add(e.window.Until() - e.window.Now() + lastAnswer)); err != nil {
		return fmt.Errorf("echo: deadline: %w", err)
	}
	for {
		idle := e.next == e.due
		now := e.window.Now()
		over := now >= e.window.Until()
		switch {
		case over && idle:
			return nil
		case over:
			if err := e.conn.Receive(); err != nil {
				return fmt.Errorf("echo: %w", err)
			}
		default:
			if err := e.send(now); err != nil {
				return err
			}
			if err := e.conn.Exchange(e.requests.Bytes(), idle); err != nil {
				return fmt.Errorf("echo: %w", err)
			}
		}
		if err := e.receive(); err != nil {
			return err
		}
	}
}

// send prepares as many requests as may be added to those in flight.
func (e *echoer) send(now time.Duration) error {
	e.requests.Reset()
	for e.next-e.due < uint64(len(e.began)) {
		if _, err := e.requests.Add(correlation(e.next), 0, nil); err != nil {
			return fmt.Errorf("echo: %w", err)
		}
		e.began[e.next%uint64(len(e.began))] = now
		e.next++
	}
	return nil
}

// receive counts the available responses.
func (e *echoer) receive() error {
	now := e.window.Now()
	for {
		frame, ok := e.conn.Next()
		if !ok {
			return nil
		}
		id, due := int32(binary.BigEndian.Uint32(frame)), correlation(e.due)
		if len(frame)+4 != e.answer || id != due || e.next == e.due {
			return fmt.Errorf(
				"echo: got a response of %d bytes to request %d, want %d bytes to request %d",
				len(frame)+4,
				id,
				e.answer,
				due,
			)
		}
		e.recorder.Done(e.began[e.due%uint64(len(e.began))], now, e.each)
		e.due++
	}
}

// correlation returns the id of the nth request: its low 32 bits.
func correlation(n uint64) int32 { return int32(uint32(n)) }
