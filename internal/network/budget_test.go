package network

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
)

// TestI13ProduceBudgetStopsProducersOnly: beyond the budget producers are not read, small requests
// of other APIs pass, and one frame larger than the budget passes alone.
func TestI13ProduceBudgetStopsProducersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		produces := newParked()
		f := start(t, func(r *Request) {
			if r.Key == protocol.KeyProduce {
				produces.handle(r)
			} else {
				echo(r)
			}
		}, func(o *Options) { o.ProduceBytes = 1000 })
		defer f.end(t)
		var clients []*client
		defer func() {
			for _, c := range clients {
				c.Close()
			}
		}()
		for i := range int32(3) {
			c := f.pipe.dial()
			clients = append(clients, c)
			go func() { _, _ = c.Write(frame(protocol.KeyProduce, 3, i, make([]byte, 400+1000*int(i/2)))) }()
			synctest.Wait()
		}
		if len(produces.ch) != 2 || f.Stats().Produce.Waiting != 1 {
			t.Fatalf("%d handled, %+v", len(produces.ch), f.Stats().Produce)
		}
		other := f.pipe.dial()
		defer other.Close()
		other.send(t, frame(keyMetadata, 1, 9, make([]byte, 5000)))
		other.want(t, 9)
		produces.next().Respond(body(nil))
		clients[0].want(t, 0)
		if synctest.Wait(); len(produces.ch) != 1 {
			t.Fatal("the large one was admitted together with another")
		}
		produces.next().Respond(body(nil))
		clients[1].want(t, 1)
		produces.next().Respond(body(nil))
		clients[2].want(t, 2)
	})
}

func TestI13ConnectionLimits(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"requests": func(o *Options) { o.ConnectionRequests = 5 },
		"bytes":    func(o *Options) { o.ConnectionBytes = 5 * 114 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newParked()
				f := start(t, p.handle, change)
				defer f.end(t)
				c := f.pipe.dial()
				defer c.Close()
				go func() {
					for i := range int32(50) {
						if _, err := c.Write(frame(protocol.KeyProduce, 3, i, make([]byte, 104))); err != nil {
							return
						}
					}
				}()
				for i := range int32(50) {
					if synctest.Wait(); len(p.ch) > 5 {
						t.Fatalf("%d under way", len(p.ch))
					}
					p.next().Respond(body(nil))
					c.want(t, i)
				}
			})
		})
	}
}

// TestI13EveryWayOutReleases drives requests past every limit, on connections that succeed, fail,
// time out or close, and checks that all counts return to zero (fixture.end).
func TestI13EveryWayOutReleases(t *testing.T) {
	total := 1_000_000
	if testing.Short() || raceOrInvariants {
		total = 20_000
	}
	const clients = 16
	w := wayOut{later: make(chan *Request, 10_000)}
	go w.answerLater()
	defer close(w.later)
	f := start(t, w.handle, func(o *Options) {
		o.ProduceBytes, o.ConnectionBytes, o.ConnectionRequests = 20_000, 10_000, 200
		o.OtherBytes, o.SmallFrame = 1000, 100
	})
	addr := f.tcp(t)
	var wg sync.WaitGroup
	for g := range clients {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			for left := total / clients; left > 0; {
				n := 1 + rnd.IntN(2000)
				burst(t, addr, rnd, n)
				left -= n
			}
		})
	}
	wg.Wait()
	for f.Stats().Connections != 0 || f.Stats().Orphans != 0 {
		time.Sleep(time.Millisecond)
	}
	s := f.Stats()
	t.Logf("waited %d times for produce bytes, %d times for others; gave up %d times", s.Produce.Waited, s.Other.Waited, s.Produce.Canceled)
	if s.Produce.Waited == 0 || total == 1_000_000 && s.Other.Waited == 0 || s.Produce.Peak > 20_000 || s.Other.Peak > 1000 {
		t.Errorf("the limits were not reached, or passed: %+v", s)
	}
	f.end(t)
}

// wayOut answers by the correlation id: at once, later, at the timeout, not at
// all, or by closing.
type wayOut struct{ later chan *Request }

func (w wayOut) handle(r *Request) {
	switch r.CorrelationID % 8 {
	case 0:
		r.Respond(body("done"))
	case 1:
		r.RespondRaw([][]byte{r.Body[:0], []byte("error")}, nil)
	case 2:
		r.ReleaseBody()
		w.later <- r
	case 3:
		r.ExpireAt(time.Now().Add(time.Millisecond), func() { r.Respond(body("timed out")) })
	default:
		w.later <- r
	}
}

// answerLater answers all requests of a millisecond together, as a disk does.
func (w wayOut) answerLater() {
	for r := range w.later {
		time.Sleep(time.Millisecond)
		for n := len(w.later); ; n-- {
			switch {
			case r.CorrelationID%997 == 0:
				r.Abort(errors.New("acks=0 and an error"))
			case r.CorrelationID%8 == 7:
				r.RespondNone()
			default:
				r.Respond(body("later"))
			}
			if n == 0 {
				break
			}
			r = <-w.later
		}
	}
}

// burst sends n requests on a new connection, reads some of the answers and closes in one of
// several ways.
func burst(t *testing.T, addr string, rnd *rand.Rand, n int) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	var all []byte
	for range n {
		key := protocol.KeyProduce
		if rnd.IntN(50) == 0 {
			key = keyMetadata
		}
		all = append(all, frame(key, 3, rnd.Int32(), make([]byte, rnd.IntN(250)))...)
	}
	leave := rnd.IntN(3)
	if leave == 0 { // cut short
		all = all[:len(all)-rnd.IntN(len(all))]
	}
	go func() {
		_, _ = nc.Write(all) // Abort may close at any time
		if leave == 1 {
			_ = nc.(*net.TCPConn).CloseWrite()
			return
		}
		_ = nc.(*net.TCPConn).SetLinger(rnd.IntN(2) - 1)
		_ = nc.Close()
	}()
	_, _ = io.Copy(io.Discard, nc)
}
