package network

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
)

// The poller handles whole small requests of Produce and of quick APIs; the connection's reader
// handles all others and what follows them. The next small Produce returns the connection to the
// poller, and so does a small request of a quick API.
func TestPollerHandlesWholeSmallRequestsOnly(t *testing.T) {
	small, large, other, quick, largeQuick := 10, pollFrame+1, -1, -2, -3
	for name, c := range map[string]struct{ sizes, read []int }{
		"small":                  {sizes: []int{small}},
		"burst":                  {sizes: slices.Repeat([]int{small}, 100)},
		"up to a thousand bytes": {sizes: []int{1000, 0, 999, 17}},
		"large":                  {sizes: []int{large}, read: []int{0}},
		"other":                  {sizes: []int{other}, read: []int{0}},
		"what follows other":     {sizes: []int{small, other, small}, read: []int{1, 2}},
		"quick":                  {sizes: []int{small, quick, small, quick, quick}},
		"large quick":            {sizes: []int{largeQuick}, read: []int{0}},
		"back by quick":          {sizes: []int{large}, read: []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			f := startPolled(t, func(r *Request) { r.Respond(body(strconv.FormatBool(byPoller(r)))) },
				func(o *Options) { o.serveTime = time.Hour })
			defer f.end(t)
			p := f.dial(t)
			defer p.Close()
			var all []byte
			for i, size := range c.sizes {
				key, version := protocol.KeyProduce, int16(3)
				switch size {
				case other:
					key, size = keyMetadata, small
				case quick:
					key, version, size = keyEndTxn, 2, small
				case largeQuick:
					key, version, size = keyEndTxn, 2, quickFrame
				}
				all = append(all, frame(key, version, int32(i), make([]byte, size))...)
			}
			p.send(t, all)
			for i := range c.sizes {
				got, want := string(p.want(t, int32(i))), strconv.FormatBool(!slices.Contains(c.read, i))
				if got != want {
					t.Errorf("request %d: by the poller: %v, want %v", i, got, want)
				}
			}
			last := int32(len(c.sizes))
			switch name {
			case "large", "other", "large quick":
				p.send(t, frame(protocol.KeyProduce, 3, warm, nil))
				p.want(t, warm)
			case "back by quick":
				p.send(t, frame(keyEndTxn, 2, warm, nil))
				p.want(t, warm)
			}
			p.awaitRole(t, connlife.Offered)
			p.send(t, frame(protocol.KeyProduce, 3, last, nil))
			if got := p.want(t, last); string(got) != "true" {
				t.Error("the connection did not return to its poller")
			}
		})
	}
}

// The poller finds the start of a frame, the reader waits for the rest.
func TestPolledFrameCutAtEveryByte(t *testing.T) {
	f := startPolled(t, echo, nil)
	defer f.end(t)
	p := f.dial(t)
	defer p.Close()
	for cut := 1; cut < len(frame(protocol.KeyProduce, 3, 0, make([]byte, 20))); cut++ {
		sent := bytes.Repeat([]byte{byte(cut)}, 20)
		whole := frame(protocol.KeyProduce, 3, int32(cut), sent)
		if cut%2 == 0 { // a whole one comes before it
			p.send(t, append(frame(protocol.KeyProduce, 3, -1, nil), whole[:cut]...))
			p.want(t, -1)
		} else {
			p.send(t, whole[:cut])
		}
		p.awaitRole(t, connlife.Free)
		p.send(t, whole[cut:])
		if got := p.want(t, int32(cut)); !bytes.Equal(got, sent) {
			t.Fatalf("cut at %d: %x", cut, got)
		}
		p.awaitRole(t, connlife.Offered)
	}
}

// Bytes that one read of the poller does not take are read, although no further event comes for
// them.
func TestPolledBurstLargerThanTheBuffer(t *testing.T) {
	const each = 256
	for name, c := range map[string]struct{ frames, first int }{
		"just that": {pollRead / each, each}, "and a frame": {pollRead/each + 1, each}, "five": {5 * pollRead / each, each},
		"a byte too much": {pollRead / each, each + 1}, "five, cut": {5 * pollRead / each, each + 100},
	} {
		t.Run(name, func(t *testing.T) {
			f := startPolled(t, echo, nil)
			defer f.end(t)
			p := f.dial(t)
			defer p.Close()
			other := f.dialOnSamePoller(t, p)
			defer other.Close()
			all := frame(protocol.KeyProduce, 3, 0, make([]byte, c.first-14))
			for i := 1; i < c.frames; i++ {
				all = append(all, frame(protocol.KeyProduce, 3, int32(i), make([]byte, each-14))...)
			}
			resume := f.hold(t, other, protocol.KeyProduce)
			p.sendAsync(all)
			p.arrived(t, min(len(all), pollRead+1)) // so that the poller's read is full
			resume()
			for i := range c.frames {
				p.want(t, int32(i))
			}
		})
	}
}

// Whatever is wrong with a frame that the poller reads, the answers before it are sent and the
// connection is closed.
func TestPolledBadFramesClose(t *testing.T) {
	lies := frame(protocol.KeyProduce, 3, 1, make([]byte, 10))
	copy(lies[12:], []byte{100, 0}) // the client id's length
	for name, bad := range map[string][]byte{
		"length":         {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 0},
		"short":          {0, 0, 0, minFrame - 1, 0, 0, 0, 9, 0, 0, 0, 0},
		"lying header":   lies,
		"old version":    frame(protocol.KeyProduce, 2, 1, nil),
		"later version":  frame(protocol.KeyProduce, 14, 1, nil),
		"unknown API":    frame(500, 0, 1, nil),
		"over the limit": frame(protocol.KeyProduce, 3, 1, make([]byte, 5000)),
	} {
		t.Run(name, func(t *testing.T) {
			o := &recorder{}
			f := startPolled(t, func(r *Request) {
				if r.CorrelationID != 7 {
					t.Errorf("handled %d", r.CorrelationID)
				}
				echo(r)
			}, func(opts *Options) { opts.Observer, opts.MaxFrame = o, 5000 })
			p := f.dial(t)
			defer p.Close()
			p.send(t, append(frame(protocol.KeyProduce, 3, 7, nil), bad...))
			p.want(t, 7)
			p.wantClosed(t)
			p.Close()
			f.end(t)
			if want := "test closed: bad_frame"; !slices.Contains(o.told, want) {
				t.Errorf("told %q, not %q", o.told, want)
			}
		})
	}
}

func TestPolledHalfCloseGetsItsAnswers(t *testing.T) {
	whole := frame(protocol.KeyProduce, 3, 3, make([]byte, 50))
	for name, rest := range map[string][]byte{"nothing more": nil, "a cut frame": whole[:30], "a whole one": whole} {
		t.Run(name, func(t *testing.T) {
			q := newParked()
			f := startPolled(t, q.handle, nil)
			defer f.end(t)
			p := f.dial(t)
			defer p.Close()
			p.send(t, frame(protocol.KeyProduce, 3, 1, nil), frame(protocol.KeyProduce, 3, 2, nil))
			a, b := q.next(), q.next()
			p.send(t, rest)
			p.closeWrite(t)
			b.Respond(body("b"))
			a.Respond(body("a"))
			if len(rest) == len(whole) {
				q.next().Respond(body("c"))
			}
			p.want(t, 1)
			p.want(t, 2)
			if len(rest) == len(whole) {
				p.want(t, 3)
			}
			p.wantClosed(t)
		})
	}
}

// The poller or the reader notices the broken connection; requests with the handler are orphans
// until they are answered.
func TestPolledResetReleasesEverything(t *testing.T) {
	q := newParked()
	f := startPolled(t, q.handle, nil)
	defer f.end(t)
	idle, busy, cut := f.dial(t), f.dial(t), f.dial(t)
	whole := frame(protocol.KeyProduce, 3, 1, make([]byte, 100))
	busy.send(t, whole)
	r := q.next()
	busy.awaitRole(t, connlife.Offered)
	cut.send(t, whole[:50])
	cut.awaitRole(t, connlife.Free)
	for _, p := range []*polled{idle, busy, cut} {
		p.reset(t)
	}
	f.awaitNoConnection(t)
	if s := f.Stats(); s.Orphans != 1 || s.Produce.Used != int64(len(whole)-4) {
		t.Errorf("one request is with the handler: %+v", s)
	}
	r.Respond(body("too late"))
}

func TestPolledIdleIsClosedAndBusyIsNot(t *testing.T) {
	o := &recorder{}
	q := newParked()
	f := startPolled(t, q.handle, func(opts *Options) { opts.Idle, opts.Observer = 20*time.Millisecond, o })
	// Dialled without a helper: an idle connection may be closed before a test sees it offered.
	busy := &polled{client: dial(t, f.addr)}
	defer busy.Close()
	busy.send(t, frame(protocol.KeyProduce, 3, 1, nil))
	r := q.next()
	for range 5 { // each is younger than busy, and closed before it
		idle := dial(t, f.addr)
		idle.send(t, frame(protocol.KeyProduce, 3, warm, nil))
		idle.want(t, warm)
		idle.wantClosed(t)
		idle.Close()
	}
	r.Respond(body("late"))
	busy.want(t, 1)
	busy.wantClosed(t)
	busy.Close()
	f.end(t)
	if n := len(slices.DeleteFunc(o.told, func(s string) bool { return s != "test closed: idle" })); n != 6 {
		t.Errorf("%d connections were closed as idle, want 6", n)
	}
}

// The timer checks the connection, arms itself again and is stopped with the connection.
func TestIdleTimerOfAnOfferedConnection(t *testing.T) {
	f := startPolled(t, func(r *Request) {
		if !byPoller(r) {
			t.Errorf("%d was not handled by the poller", r.CorrelationID)
		}
		echo(r)
	}, func(o *Options) { o.Idle = time.Hour })
	p := f.dial(t)
	defer p.Close()
	for i := range int32(20) {
		p.c.idleFired()
		p.await(t, "the reader has looked", func(c *conn) bool { return c.life.Reader() == connlife.Offered && !c.poll.idleOver.Load() })
		p.send(t, frame(protocol.KeyProduce, 3, i, nil))
		p.want(t, i)
	}
	f.end(t)
	if p.c.poll.idle.Stop() {
		t.Error("the timer runs on")
	}
}

func TestPolledThrottleStopsReading(t *testing.T) {
	const long = 100 * time.Millisecond
	for name, cut := range map[string]int{"in one piece": 0, "with the next": 14, "in two pieces, slower than a frame may be": 20} {
		t.Run(name, func(t *testing.T) {
			began := make(chan time.Time, 1)
			f := startPolled(t, func(r *Request) {
				if r.CorrelationID == 1 {
					began <- time.Now()
					r.Throttle(long)
				} else if d := time.Since(<-began); d < long {
					t.Errorf("the next was read after %v", d)
				}
				echo(r)
			}, func(o *Options) { o.FrameTimeout = long / 2 })
			defer f.end(t)
			p := f.dial(t)
			defer p.Close()
			next := frame(protocol.KeyProduce, 3, 2, make([]byte, 10))
			p.send(t, append(frame(protocol.KeyProduce, 3, 1, nil), next[:cut]...))
			p.want(t, 1)
			p.send(t, next[cut:])
			p.want(t, 2)
			p.awaitRole(t, connlife.Offered)
			if p.c.muteUntil.Load() != 0 {
				t.Error("still muted")
			}
		})
	}
}

// The rest of a frame whose start the poller read must arrive in time, also after a whole one.
func TestPolledFrameTimeout(t *testing.T) {
	whole := frame(protocol.KeyProduce, 3, 1, make([]byte, 100))
	for name, sent := range map[string][]byte{
		"length": whole[:3], "header": whole[:9], "payload": whole[:90], "after a whole one": append(bytes.Clone(whole), whole[:90]...),
		"after another": append(frame(keyMetadata, 3, 1, nil), whole[:2]...),
	} {
		t.Run(name, func(t *testing.T) {
			o := &recorder{}
			f := startPolled(t, echo, func(opts *Options) { opts.FrameTimeout, opts.Observer = 20*time.Millisecond, o })
			p := f.dial(t)
			defer p.Close()
			p.send(t, sent)
			if len(sent) > len(whole) || name == "after another" {
				p.want(t, 1)
			}
			p.wantClosed(t)
			p.Close()
			f.end(t)
			if want := "test closed: slow_sender"; !slices.Contains(o.told, want) {
				t.Errorf("told %q, not %q", o.told, want)
			}
		})
	}
}

// A request after one that closes the connection is not handled, although the poller has read it.
func TestPolledAbortReadsNoMore(t *testing.T) {
	f := startPolled(t, func(r *Request) {
		switch r.CorrelationID {
		case 1:
			echo(r)
		case 2:
			r.Abort(errors.New("acks=0 and an error"))
		default:
			t.Error("handled after the abort")
			echo(r)
		}
	}, nil)
	defer f.end(t)
	p := f.dial(t)
	defer p.Close()
	p.send(t, slices.Concat(frame(protocol.KeyProduce, 3, 1, nil), frame(protocol.KeyProduce, 3, 2, nil),
		frame(protocol.KeyProduce, 3, 3, nil)))
	p.want(t, 1)
	p.wantClosed(t)
}
