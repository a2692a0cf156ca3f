package network

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
)

// The poller does not wait for bytes of the budget, the reader does; requests of the poller's other
// connections continue.
func TestI13PolledProduceBudget(t *testing.T) {
	q := newParked()
	f := startPolled(t, q.handle, func(o *Options) { o.ProduceBytes = 2000 })
	defer f.end(t)
	a := f.dial(t)
	defer a.Close()
	b, c := f.dialOnSamePoller(t, a), f.dialOnSamePoller(t, a)
	defer b.Close()
	defer c.Close()
	a.send(t, frame(protocol.KeyProduce, 3, 1, make([]byte, 1200)))
	ra := q.next()
	b.send(t, frame(protocol.KeyProduce, 3, 2, make([]byte, 900)))
	await(t, "b waits", func() bool { return f.Stats().Produce.Waiting == 1 })
	c.send(t, frame(protocol.KeyProduce, 3, 3, make([]byte, 300))) // would fit, but waits behind b
	await(t, "c waits", func() bool { return f.Stats().Produce.Waiting == 2 })
	if len(q.ch) != 0 {
		t.Error("a request passed the budget")
	}
	ra.Respond(body(nil))
	a.want(t, 1)
	for range 2 {
		r := q.next()
		if byPoller(r) {
			t.Errorf("%d waited and was handled by the poller", r.CorrelationID)
		}
		r.Respond(body(nil))
	}
	b.want(t, 2)
	c.want(t, 3)
	for _, p := range []*polled{a, b, c} {
		p.awaitRole(t, connlife.Offered)
	}
	a.send(t, frame(protocol.KeyProduce, 3, 4, nil))
	r := q.next()
	if !byPoller(r) {
		t.Error("the budget is free again, and the poller does not take the request")
	}
	r.Respond(body(nil))
	a.want(t, 4)
}

func TestI13PolledConnectionLimits(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"requests": func(o *Options) { o.ConnectionRequests = 5 },
		"bytes":    func(o *Options) { o.ConnectionBytes = 5 * 114 },
	} {
		t.Run(name, func(t *testing.T) {
			q := newParked()
			f := startPolled(t, q.handle, change)
			defer f.end(t)
			p := f.dial(t)
			defer p.Close()
			var all []byte
			for i := range int32(50) {
				all = append(all, frame(protocol.KeyProduce, 3, i, make([]byte, 104))...)
			}
			p.send(t, all)
			for i := range int32(50) {
				left := 50 - int(i)
				p.await(t, "as many under way as may be",
					func(c *conn) bool {
						return len(q.ch) == min(5, left) && (c.life.Reader() == connlife.Waiting) == (left > 5)
					})
				r := q.next()
				if i < 5 != byPoller(r) {
					t.Errorf("%d: by the poller: %v", i, byPoller(r))
				}
				r.Respond(body(nil))
				p.want(t, i)
			}
			p.awaitRole(t, connlife.Offered)
		})
	}
}

// Only Produce overlaps, also if the poller began the earlier ones, and if it could handle the
// other one.
func TestPolledOthersWaitForProduce(t *testing.T) {
	for _, other := range []int16{keyMetadata, keyEndTxn} {
		t.Run(kmsg.NameForKey(other), func(t *testing.T) { othersWait(t, other) })
	}
}

func othersWait(t *testing.T, other int16) {
	t.Helper()
	q := newParked()
	f := startPolled(t, q.handle, nil)
	defer f.end(t)
	p := f.dial(t)
	defer p.Close()
	p.send(t, slices.Concat(frame(protocol.KeyProduce, 3, 1, nil), frame(protocol.KeyProduce, 3, 2, nil),
		frame(other, 2, 3, nil), frame(protocol.KeyProduce, 3, 4, nil)))
	a, b := q.next(), q.next()
	p.await(t, "the reader waits", func(c *conn) bool { return (c.life.Reader() == connlife.Waiting) })
	b.Respond(body(nil))
	p.await(t, "the reader waits on", func(c *conn) bool { return (c.life.Reader() == connlife.Waiting) && c.queue.unready == 1 })
	if len(q.ch) != 0 {
		t.Error("it began during a Produce")
	}
	a.Respond(body(nil))
	m := q.next()
	p.await(t, "the reader waits for it", func(c *conn) bool {
		return c.life.Reader() == connlife.Waiting && c.queue.unready > c.queue.produces
	})
	if m.Key != other || len(q.ch) != 0 {
		t.Error("Produce began during it")
	}
	m.Respond(body(nil))
	q.next().Respond(body(nil))
	for i := range int32(4) {
		p.want(t, i+1)
	}
}

func TestPolledConnectionsAreAbsentProducers(t *testing.T) {
	q := newParked()
	f := startPolled(t, q.handle, func(o *Options) { o.ProducerWindow = time.Hour })
	defer f.end(t)
	absent := func(want int, when string) {
		t.Helper()
		await(t, when, func() bool { return f.Producers().Absent() == want })
	}
	a, b := f.dial(t), f.dial(t)
	defer b.Close()
	absent(2, "both have produced")
	a.send(t, append(frame(protocol.KeyProduce, 3, 1, nil), frame(protocol.KeyProduce, 3, 2, nil)...))
	first, second := q.next(), q.next()
	absent(1, "one is in")
	first.Respond(body(nil))
	a.want(t, 1)
	absent(1, "one of its two is answered")
	second.Respond(body(nil))
	a.want(t, 2)
	absent(2, "both are")
	a.send(t, frame(protocol.KeyProduce, 3, 3, nil))
	late := q.next()
	a.reset(t)
	f.awaitConnections(t, 1)
	absent(1, "it left with a request under way")
	late.Respond(body(nil))
	absent(1, "which was answered")
}

// The connection's writer expires the oldest request, in order, whichever goroutine reads and
// writes.
func TestExpiryOfPolledRequests(t *testing.T) {
	var order []int32 // used by the writer only
	f := startPolled(t, func(r *Request) {
		id := r.CorrelationID
		r.ExpireAt(time.Now().Add(time.Duration(3-id%4)*time.Millisecond), func() {
			order = append(order, id)
			r.Respond(body("timed out"))
		})
	}, nil)
	p := f.dial(t)
	defer p.Close()
	var all []byte
	var want []int32
	for i := range int32(40) {
		all = append(all, frame(protocol.KeyProduce, 3, i, nil)...)
		want = append(want, i)
	}
	p.send(t, all)
	for i := range int32(40) {
		p.want(t, i)
	}
	p.awaitRole(t, connlife.Offered)
	f.end(t)
	if !slices.Equal(order, want) {
		t.Errorf("expired in the order %v", order)
	}
}
