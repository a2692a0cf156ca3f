package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/link/frame"
)

// ask calls with a deadline of five seconds.
func ask(p *Peer, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return p.Call(ctx, 7, body)
}

func TestRequestsAreAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, 1, nil), n.add(t, 2, nil)
		away := a.Peer(target(3))
		if _, err := ask(away, nil); !errors.Is(err, ErrNotSent) {
			t.Errorf("a call without a connection: %v", err)
		}
		away.Close()
		p := a.Peer(target(2))
		synctest.Wait()
		for _, size := range []int{0, 1, frame.MaxPiece, frame.MaxPiece + 1, 3*frame.MaxPiece + 5, 10 << 20} {
			body := bytes.Repeat([]byte{byte(size), 2, 3}, size/3+1)[:size]
			if got, err := ask(p, body); err != nil || !bytes.Equal(got, body) {
				t.Fatalf("%d bytes: %d came back, %v", size, len(got), err)
			}
		}
		if h, ok := p.Hello(); !ok || h.Node != 2 || h.BrokerEpoch != 5 {
			t.Errorf("peer %+v", h)
		}
		a.end(t)
		b.end(t)
		if _, err := ask(p, nil); !errors.Is(err, ErrNotSent) {
			t.Errorf("a call after Close: %v", err)
		}
		if len(a.of(Connected)) != 1 || len(a.of(Broken)) != 1 || len(b.of(Connected)) != 1 || len(b.of(Broken)) != 1 {
			t.Errorf("events: %+v, %+v", a.events, b.events)
		}
	})
}

// handler is a Handler of functions.
type handler struct {
	message func(Hello, uint16, []byte)
	request func(context.Context, []byte) ([]byte, error)
	urgent  func([]byte) ([]byte, error) // requests of urgentMethod
}

const urgentMethod = 99

func (h handler) Message(from Hello, method uint16, body []byte) { h.message(from, method, body) }
func (h handler) Request(ctx context.Context, _ Hello, method uint16, body []byte) ([]byte, error) {
	if method == urgentMethod {
		return h.urgent(body)
	}
	return h.request(ctx, body)
}

func TestErrorsOfAHandlerReachTheSender(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		a := n.add(t, 1, nil)
		b := n.add(t, 2, func(o *Options) {
			o.Handler = handler{request: func(ctx context.Context, body []byte) ([]byte, error) {
				switch string(body) {
				case "code":
					return nil, fmt.Errorf("wrapped: %w", &RemoteError{FirstCode + 3, "a conflict"})
				case "large":
					return make([]byte, frame.MaxMessage+1), nil
				case "late":
					<-ctx.Done()
				}
				return nil, errors.New("plain")
			}}
		})
		p := a.Peer(target(2))
		synctest.Wait()
		for body, want := range map[string]RemoteError{
			"code": {FirstCode + 3, "wrapped: a conflict"}, "x": {CodeFailed, "plain"},
			"large": {CodeSize, fmt.Sprintf("the response has %d bytes, at most %d are allowed", frame.MaxMessage+1, frame.MaxMessage)},
		} {
			_, err := ask(p, []byte(body))
			if e := (*RemoteError)(nil); !errors.As(err, &e) || *e != want {
				t.Errorf("%s: %v, want %v", body, err, want)
			}
		}
		began := time.Now()
		if _, err := ask(p, []byte("late")); !errors.Is(err, ErrNoAnswer) && err.Error() != "plain" || time.Since(began) != 5*time.Second {
			t.Errorf("late: %v after %v", err, time.Since(began))
		}
		if _, err := p.Call(context.Background(), 1, nil); !errors.Is(err, ErrNotSent) {
			t.Errorf("a call that could wait for good: %v", err)
		}
		if _, err := ask(p, make([]byte, frame.MaxMessage+1)); !errors.Is(err, ErrNotSent) {
			t.Errorf("a request that is too large: %v", err)
		}
		a.end(t)
		b.end(t)
	})
}

// Heartbeats pass a large transaction: a piece of each queue is sent in turn.
func TestMessagesPassALargeRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		var order []string
		a := n.add(t, 1, nil)
		b := n.add(t, 2, func(o *Options) {
			o.Handler = handler{
				message: func(_ Hello, _ uint16, body []byte) { order = append(order, string(body)) },
				request: func(context.Context, []byte) ([]byte, error) { order = append(order, "request"); return nil, nil },
			}
		})
		p := a.Peer(target(2))
		synctest.Wait()
		done := make(chan error)
		go func() { _, err := ask(p, make([]byte, 8<<20)); done <- err }()
		for i := range 5 {
			for !p.Send(1, fmt.Append(nil, i)) {
				t.Error("dropped")
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := strings.Join(order, " "); got != "0 1 2 3 4 request" {
			t.Errorf("order: %s", got)
		}
		a.end(t)
		b.end(t)
	})
}

// A peer that reads nothing costs the queues' bounds and no more; what waits for it is answered.
func TestPeerThatDoesNotReadIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		a := n.add(t, 1, nil)
		stuck := make(chan struct{})
		b := n.add(t, 2, func(o *Options) {
			o.Handler = handler{
				message: func(Hello, uint16, []byte) { <-stuck },
				request: func(context.Context, []byte) ([]byte, error) { return nil, errors.New("late") },
			}
		})
		p := a.Peer(target(2))
		synctest.Wait()
		sent, body := 0, make([]byte, 1<<20)
		for range 1000 {
			if p.Send(1, body) {
				sent++
			}
		}
		if s := p.Stats(); s.Queued > maxQueuedBytes || sent > maxQueuedBytes>>20+2 || int(s.Dropped) != 1000-sent {
			t.Errorf("%d sent, %+v", sent, s)
		}
		synctest.Wait() // until b handles the first message
		began := time.Now()
		_, err := ask(p, []byte("waits"))
		if err == nil || time.Since(began) > 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		synctest.Wait()
		if e := a.of(Broken); len(e) == 0 {
			t.Errorf("the connection of a peer that does not read is not broken; the call: %v after %v", err, time.Since(began))
		}
		close(stuck)
		a.end(t)
		b.end(t)
	})
}

// A response that can't come any longer fails at once, and reports whether the request was sent.
func TestCallsEndWithTheirConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		a := n.add(t, 1, nil)
		b := n.add(t, 2, func(o *Options) {
			o.Handler = handler{request: func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }}
		})
		p := a.Peer(target(2))
		synctest.Wait()
		done := make(chan error)
		go func() { _, err := ask(p, nil); done <- err }()
		synctest.Wait()
		began := time.Now()
		n.wire().ends[0].Close()
		if err := <-done; !errors.Is(err, ErrNoAnswer) || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(time.Second)
		if _, ok := p.Hello(); !ok {
			t.Error("not connected again after a second")
		}
		a.end(t)
		b.end(t)
	})
}

// More requests than a connection may have are refused, and none waits for good.
func TestTooManyRequestsAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		a := n.add(t, 1, nil)
		b := n.add(t, 2, func(o *Options) {
			o.InboundBytes = 1 << 20
			o.Handler = handler{request: func(ctx context.Context, body []byte) ([]byte, error) {
				<-ctx.Done()
				return nil, &RemoteError{FirstCode, "over"}
			}}
		})
		p := a.Peer(target(2))
		synctest.Wait()
		results := make(chan error, 1000)
		for range maxHandling {
			go func() { _, err := ask(p, nil); results <- err }()
		}
		synctest.Wait()
		busy := func(err error) bool {
			e := (*RemoteError)(nil)
			return errors.As(err, &e) && e.Code == CodeBusy
		}
		if _, err := ask(p, nil); !busy(err) {
			t.Errorf("one too many: %v", err)
		}
		for range maxHandling {
			if err := <-results; err == nil || busy(err) {
				t.Errorf("%v", err)
			}
		}
		go func() { _, err := ask(p, make([]byte, 700<<10)); results <- err }()
		synctest.Wait()
		if _, err := ask(p, make([]byte, 700<<10)); !busy(err) {
			t.Errorf("more bytes than there is memory for: %v", err)
		}
		<-results
		a.end(t)
		b.end(t)
	})
}

// Urgent requests are answered while all handlers are busy, all memory is in use at both ends, and
// the queues of requests and responses are full.
func TestUrgentRequestsHaveTheirOwnWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		urgent := func(o *Options) {
			o.InboundBytes = 1 << 20
			o.Urgent = func(method uint16) bool { return method == urgentMethod }
		}
		over := make(chan struct{})
		a := n.add(t, 1, urgent)
		b := n.add(t, 2, func(o *Options) {
			urgent(o)
			o.Handler = handler{
				request: func(ctx context.Context, _ []byte) ([]byte, error) { <-over; return nil, nil },
				urgent:  func(body []byte) ([]byte, error) { return body, nil },
			}
		})
		p := a.Peer(target(2))
		synctest.Wait()
		beat := func(what string) {
			t.Helper()
			began := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			for _, size := range []int{1, frame.MaxPiece} {
				got, err := p.Call(ctx, urgentMethod, make([]byte, size))
				if err != nil || len(got) != size || time.Since(began) > time.Second {
					t.Errorf("%s: %d bytes, %v after %v", what, len(got), err, time.Since(began))
				}
			}
		}
		beat("nothing else")
		var calls sync.WaitGroup
		for range maxHandling - 1 {
			calls.Go(func() { _, _ = ask(p, nil) })
		}
		calls.Go(func() { _, _ = ask(p, make([]byte, 1<<20)) })
		synctest.Wait()
		if b.Stats().Inbound.Used != 1<<20 || !a.inbound.TryAcquire(1<<20) {
			t.Fatalf("the memory is not in use: %+v", b.Stats())
		}
		beat("all handlers and all memory in use")
		s := p.session()
		s.out.mu.Lock()
		for range maxQueued { // the sender's lock keeps them waiting
			q := &s.out.queues[kindRequest]
			q.list = append(q.list, &outgoing{kind: kindRequest, call: &call{}, deadline: time.Now()})
		}
		s.out.mu.Unlock()
		beat("a full queue of requests")
		a.inbound.Release(1 << 20)
		close(over)
		calls.Wait()
		a.end(t)
		b.end(t)
	})
}

// A request of which a part was sent is sent to its end, although its caller has given up: the
// pieces of the next one would otherwise continue it.
func TestCallThatGivesUpLeavesTheConnectionWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		a := n.add(t, 1, nil)
		stuck := make(chan struct{})
		b := n.add(t, 2, func(o *Options) {
			o.Handler = handler{
				message: func(Hello, uint16, []byte) { <-stuck },
				request: func(_ context.Context, body []byte) ([]byte, error) { return body[:1], nil },
			}
		})
		p := a.Peer(target(2))
		synctest.Wait()
		p.Send(1, nil) // b does not read until it is handled
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		began := time.Now()
		results := make(chan error)
		go func() { _, err := p.Call(ctx, 1, make([]byte, 8<<20)); results <- err }()
		synctest.Wait()
		go func() { _, err := p.Call(ctx, 1, make([]byte, 4<<20)); results <- err }()
		first, second := <-results, <-results
		if errors.Is(first, ErrNotSent) == errors.Is(second, ErrNotSent) || time.Since(began) != time.Second {
			t.Errorf("one was begun and one was not: %v; %v; after %v", first, second, time.Since(began))
		}
		cancel()
		close(stuck)
		if got, err := ask(p, make([]byte, 3<<20)); err != nil || len(got) != 1 {
			t.Errorf("the next request: %v", err)
		}
		if broken := a.of(Broken); len(broken) > 0 {
			t.Errorf("%v", broken[0].Err)
		}
		a.end(t)
		b.end(t)
	})
}

// What is queued for a connection that has ended is not sent on the next one.
func TestNothingIsQueuedForAnEndedConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, 1, nil), n.add(t, 2, nil)
		p := a.Peer(target(2))
		synctest.Wait()
		old := p.session()
		n.wire().ends[0].Close()
		synctest.Wait()
		if old.out.add(&outgoing{kind: kindMessage}) {
			t.Error("the queue of an ended connection takes a message")
		}
		if p.Send(1, nil) || p.Stats().Connected || p.Stats().Dropped != 1 {
			t.Errorf("sent without a connection: %+v", p.Stats())
		}
		a.end(t)
		b.end(t)
	})
}

// The pieces of a message follow one another; small messages may lie between them.
func TestPiecesOfMessages(t *testing.T) {
	type step struct {
		p     frame.Piece
		flags uint8
		body  string
		whole string // the message that is complete then
		bad   bool
	}
	first := frame.Piece{ID: 1, Total: 6, Method: 3}
	at := func(offset uint32) frame.Piece { p := first; p.Offset = offset; return p }
	small := frame.Piece{ID: 2, Total: 2}
	begin := step{p: first, flags: frame.FlagMore, body: "ab"}
	middle, last := frame.FlagMore|frame.FlagNext, frame.FlagNext
	for name, steps := range map[string][]step{
		"in order": {begin, {p: at(2), flags: middle, body: "cd"}, {p: small, body: "xy", whole: "xy"},
			{p: at(4), flags: last, body: "ef", whole: "abcdef"}},
		"one missing":   {begin, {p: at(4), flags: last, body: "ef", bad: true}},
		"one twice":     {begin, {p: at(2), flags: middle, body: "cd"}, {p: at(2), flags: middle, body: "cd", bad: true}},
		"no first":      {{p: at(2), flags: middle, body: "cd", bad: true}},
		"two at a time": {begin, {p: frame.Piece{ID: 5, Total: 6}, flags: frame.FlagMore, body: "ab", bad: true}},
		"another one's": {begin, {p: frame.Piece{ID: 5, Total: 6, Offset: 2}, flags: middle, body: "cd", bad: true}},
		"another total": {begin, {p: frame.Piece{ID: 1, Total: 7, Offset: 2}, flags: middle, body: "cd", bad: true}},
	} {
		in := inbox{budget: bufpool.NewBudget(1000), urgent: func(uint16) bool { return false }}
		for i, s := range steps {
			m, err := in.add(frame.Header{Kind: frame.RQ, Flags: s.flags}, append(s.p.AppendTo(nil), s.body...))
			if s.bad != (err != nil) || err != nil && !errors.Is(err, frame.ErrMalformed) {
				t.Errorf("%s, piece %d: %v", name, i, err)
			}
			if m == nil && s.whole != "" || m != nil && string(m.body) != s.whole {
				t.Errorf("%s, piece %d: %+v", name, i, m)
			}
			in.release(m)
		}
		in.close()
		if n := in.budget.Used(); n != 0 {
			t.Errorf("%s: %d bytes are still charged", name, n)
		}
	}
}
