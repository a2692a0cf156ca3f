package stream

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/link/frame"
)

var errCut = errors.New("the wire is cut")

// wire is a connection of two brokers in memory.
type wire struct {
	mu    sync.Mutex
	cut   bool
	ends  [2]*end
	fault func(kind frame.Kind, raw []byte) [][]byte // nil: none
}

// end is one end of a wire. It implements Conn.
type end struct {
	w      *wire
	other  *end
	broker int32 // at the other end
	epoch  int64
	wake   chan struct{}
	done   chan struct{}
	source Source
	sender sync.WaitGroup
	pushes atomic.Int64 // calls of Push and Kick
	kicks  atomic.Int64

	in       [][]byte // guarded by wire.mu
	arrived  *sync.Cond
	inFlight int // bytes in in

	present []byte // of the reader
	vec     vector // of the goroutine that sends
}

var pool bufpool.Pool

// newWire connects broker a, which dials, with broker b.
func newWire(a, b int32, epochA, epochB int64) *wire {
	w := &wire{}
	for i := range w.ends {
		w.ends[i] = &end{w: w, wake: make(chan struct{}, 1), done: make(chan struct{})}
		w.ends[i].arrived = sync.NewCond(&w.mu)
	}
	x, y := w.ends[0], w.ends[1]
	x.other, x.broker, x.epoch = y, b, epochB
	y.other, y.broker, y.epoch = x, a, epochA
	return w
}

func (e *end) Broker() int32      { return e.broker }
func (e *end) BrokerEpoch() int64 { return e.epoch }
func (e *end) Version() uint8     { return frame.MaxVersion }

func (e *end) Buffered() bool {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	return len(e.in) > 0
}

func (e *end) Next() (frame.Header, error) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	for len(e.in) == 0 && !e.w.cut {
		e.arrived.Wait()
	}
	if e.w.cut {
		return frame.Header{}, errCut
	}
	e.present = e.in[0]
	e.in = e.in[1:]
	e.inFlight -= len(e.present)
	return frame.ParseHeader(e.present, frame.MinVersion)
}

func (e *end) payload() []byte { return e.present[frame.HeaderSize:] }

func (e *end) Peek(n int) ([]byte, error) { return e.payload()[:min(n, len(e.payload()))], nil }

func (e *end) check() error {
	h, err := frame.ParseHeader(e.present, frame.MinVersion)
	if err == nil {
		err = h.Check(e.present, e.payload())
	}
	return err
}

func (e *end) Payload() (*bufpool.Buffer, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	b := pool.Get(len(e.payload()))
	copy(b.Bytes(), e.payload())
	return b, nil
}

func (e *end) Discard() error { return e.check() }

func (e *end) Start(s Source) {
	e.source = s
	e.sender.Go(e.send)
	e.Kick()
}

func (e *end) Push() {
	e.pushes.Add(1)
	e.notify()
}

func (e *end) Kick() {
	e.kicks.Add(1)
	e.notify()
}

func (e *end) notify() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Close cuts the wire.
func (e *end) Close() {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	if e.w.cut {
		return
	}
	e.w.cut = true
	for _, x := range e.w.ends {
		close(x.done)
		x.arrived.Broadcast()
	}
}

// send writes until the wire is cut.
func (e *end) send() {
	for {
		select {
		case <-e.wake:
		case <-e.done:
			return
		}
		for {
			e.vec.reset()
			e.source.Fill(&e.vec)
			if len(e.vec.frames) == 0 {
				break
			}
			for _, f := range e.vec.frames {
				e.deliver(f)
			}
		}
		e.vec.reset()
	}
}

func (e *end) deliver(raw []byte) {
	e.w.mu.Lock()
	fault := e.w.fault
	e.w.mu.Unlock()
	out := [][]byte{raw}
	if fault != nil {
		h, _ := frame.ParseHeader(raw, frame.MinVersion)
		if out = fault(h.Kind, raw); out == nil {
			return
		}
	}
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	for _, f := range out {
		e.other.in = append(e.other.in, f)
		e.other.inFlight += len(f)
	}
	e.other.arrived.Broadcast()
}

// vector implements Vector.
type vector struct {
	frames [][]byte
	size   int
}

func (v *vector) Full() bool         { return v.size >= 1<<20 }
func (v *vector) Begin(n int) []byte { return make([]byte, 0, n) }
func (v *vector) reset()             { v.frames, v.size = nil, 0 }

func (v *vector) End(k frame.Kind, flags uint8, fields []byte, held Releaser, body ...[]byte) {
	raw := make([]byte, frame.HeaderSize)
	frame.PutHeader(raw, k, frame.MinVersion, flags, fields, body...)
	raw = append(raw, fields...)
	raw = append(raw, slices.Concat(body...)...)
	if held != nil {
		held.Release()
	}
	v.frames = append(v.frames, raw)
	v.size += len(raw)
}
