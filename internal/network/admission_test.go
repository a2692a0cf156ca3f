package network

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
)

// announced returns the start of a frame that announces size bytes.
func announced(key int16, size int) []byte {
	f := frame(key, 3, 7, nil)
	binary.BigEndian.PutUint32(f, uint32(size))
	return f
}

// Clients that announce as much as they may, and then send nothing, delay no other client.
func TestAnnouncedLengthHoldsNoMemory(t *testing.T) {
	for _, key := range []int16{protocol.KeyProduce, keyMetadata} {
		t.Run(fmt.Sprint("API ", key), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, echo, nil)
				defer f.end(t)
				for range 60 {
					c := f.pipe.dial()
					t.Cleanup(func() { c.Close() })
					c.send(t, announced(key, 100<<20))
				}
				synctest.Wait()
				began := time.Now()
				c := f.pipe.dial()
				defer c.Close()
				for i, size := range []int{60, 20_000, 1 << 20} {
					c.sendAsync(frame(key, 3, int32(i), make([]byte, size)))
					c.want(t, int32(i))
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("requests were answered after %v", took)
				}
				if s := f.Stats(); s.ProduceArriving.Used+s.OtherArriving.Used+s.Produce.Used+s.Other.Used > 0 {
					t.Errorf("something is held for what was only announced: %+v", s)
				}
			})
		})
	}
}

// TestAFrameHoldsInProportionToWhatHasArrived sends a large frame piece by piece and checks the
// memory it holds.
func TestAFrameHoldsInProportionToWhatHasArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, echo, nil)
		defer f.end(t)
		c := f.pipe.dial()
		defer c.Close()
		const size = 9<<20 + 17
		whole := frame(protocol.KeyProduce, 3, 7, make([]byte, size))
		for sent := 0; sent < len(whole)-1; {
			n := min(1+sent/3, len(whole)-1-sent)
			c.send(t, whole[sent:sent+n])
			sent += n
			synctest.Wait()
			if held := f.Stats().ProduceArriving.Used; held > int64(wholeAt*sent) || held > size+100 || sent >= 4+readSmall &&
				held < int64(sent)-4 {
				t.Fatalf("%d bytes are held when %d were sent", held, sent)
			}
		}
		c.sendAsync(whole[len(whole)-1:])
		if got := c.want(t, 7); len(got) != size {
			t.Errorf("%d of %d bytes came back", len(got), size)
		}
	})
}

// The steps of a growing frame copy less than half of its bytes.
func TestStepsCopyLittle(t *testing.T) {
	for arrived := readSmall; arrived < 2*readBig; arrived += 100 {
		for size := arrived + 1; size < 100<<20; size += 1 + size/50 {
			copied := 0
			for memory := step(arrived, size); memory < size; memory = step(memory, size) {
				copied += memory
			}
			if 20*copied > 11*size {
				t.Fatalf("%d of %d bytes are copied, begun with %d", copied, size, arrived)
			}
		}
	}
}

// A frame that stops arriving is left alone until another one needs its memory; then its connection
// is closed.
func TestLaggingConnectionIsClosedWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &recorder{}
		f := start(t, echo, func(opts *Options) { opts.ProduceBytes, opts.FrameTimeout, opts.Observer = 200_000, time.Hour, o })
		defer f.end(t)
		still := []*client{f.pipe.dial(), f.pipe.dial()} // the second is the exempt one
		for _, c := range still {
			t.Cleanup(func() { c.Close() })
			c.send(t, frame(protocol.KeyProduce, 3, 1, make([]byte, 80_000))[:20_000])
		}
		time.Sleep(5 * time.Minute)
		if s := f.Stats(); s.Connections != 2 || s.ProduceArriving.Frames != 2 {
			t.Fatalf("frames are gone though no other waited: %+v", s)
		}
		began := time.Now()
		for i := range int32(3) {
			c := f.pipe.dial()
			t.Cleanup(func() { c.Close() })
			c.sendAsync(frame(protocol.KeyProduce, 3, i, make([]byte, 80_000)))
			c.want(t, i)
		}
		if took := time.Since(began); took > 2*lagTime {
			t.Errorf("others waited for %v", took)
		}
		for _, c := range still {
			c.wantClosed(t)
		}
		synctest.Wait()
		if n := f.Stats().ProduceArriving.Lagged; n != 2 {
			t.Errorf("%d frames lagged, 2 did", n)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		lagging := 0
		for _, what := range o.told {
			if what == "test closed: lagging" {
				lagging++
			}
		}
		if lagging != 2 {
			t.Errorf("%d connections ended for it: %q", lagging, o.told)
		}
	})
}

// A frame larger than the memory of its kind arrives at its own pace, and requests of ordinary size
// at theirs.
func TestFrameLargerThanTheMemoryStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, echo, func(o *Options) { o.ProduceBytes = 1 << 20 })
		defer f.end(t)
		huge := f.pipe.dial()
		defer huge.Close()
		const size = 5 << 20
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			pace{piece: 256 << 10, every: time.Second}.send(huge, frame(protocol.KeyProduce, 3, 7, make([]byte, size)), 0)
		}()
		time.Sleep(5*time.Second + time.Millisecond) // it holds more than the memory of the kind by now
		c := f.pipe.dial()
		defer c.Close()
		began := time.Now()
		for i := range int32(100) {
			c.sendAsync(frame(protocol.KeyProduce, 3, i, make([]byte, 300)))
			c.want(t, i)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("small requests waited for %v", took)
		}
		if got := huge.want(t, 7); len(got) != size {
			t.Errorf("%d bytes of the large one came back", len(got))
		}
		<-sent
	})
}

// Connections that get no large read buffer work with a small one.
func TestReadBuffersAreBounded(t *testing.T) {
	f := start(t, echo, func(o *Options) { o.ReadBytes = 2 * readBig })
	defer f.end(t)
	var burst []byte
	for i := range int32(300) {
		burst = append(burst, frame(protocol.KeyProduce, 3, i, make([]byte, int(i)*7%900))...)
	}
	for range 5 { // each one stays open
		c := f.pipe.dial()
		t.Cleanup(func() { c.Close() })
		c.sendAsync(burst)
		for i := range int32(300) {
			if got := c.want(t, i); len(got) != int(i)*7%900 {
				t.Fatalf("answer %d has %d bytes", i, len(got))
			}
		}
	}
	if n := f.Stats().Reads.Peak; n == 0 || n > 2*readBig {
		t.Errorf("read buffers had %d bytes", n)
	}
}

// pace describes how a sender of the model behaves.
type pace struct {
	piece int           // bytes at a time
	every time.Duration // and the pause after each
	stops bool          // at some byte of the frame, for good
}

// TestReceivingFramesNeverDeadlock models many clients and little memory: frames of all sizes
// arrive in pieces, some senders are slow and some stop at some byte. A client that sends 64 KiB/s
// is answered in bounded time; the other connections are closed.
func TestReceivingFramesNeverDeadlock(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { standStill(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func standStill(t *testing.T, rnd *rand.Rand) {
	budget := int64(20_000 + rnd.IntN(400_000))
	f := start(t, echo, func(o *Options) { o.ProduceBytes, o.FrameTimeout = budget, time.Hour })
	defer f.end(t)
	paces := []pace{
		{piece: 1 << 20}, {piece: 30_000, every: 100 * time.Millisecond}, {piece: 10_000, every: 100 * time.Millisecond},
		{piece: 70_000, every: time.Second}, {piece: 5000, every: 10 * time.Millisecond, stops: true}, {piece: 500, stops: true},
	}
	const clients, most = 40, 1 << 20
	began := time.Now()
	var honest, others sync.WaitGroup
	for i := range int32(clients) {
		p, size := paces[rnd.IntN(len(paces))], 2000<<rnd.IntN(9)+rnd.IntN(2000)
		stop := 1 + rnd.IntN(size)
		c, group := f.pipe.dial(), &honest
		if p.stops {
			group = &others
		}
		group.Go(func() {
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				p.send(c, frame(protocol.KeyProduce, 3, i, make([]byte, size)), stop)
			}()
			id, got, err := c.receive()
			if c.Close(); !p.stops && (err != nil || id != i || len(got) != size) {
				t.Errorf("client %d sends %d bytes, %d each %v: %d bytes for %d, %v, after %v",
					i, size, p.piece, p.every, len(got), id, err, time.Since(began))
			}
			<-sent
		})
	}
	through := make(chan struct{})
	go func() {
		honest.Wait()
		close(through)
	}()
	// Each frame is exempt at most once, for as long as its client takes or until it lags.
	bound := clients * (most/lagBytes + 3) * lagTime
	select {
	case <-through:
	case <-time.After(bound):
		t.Errorf("not all are through after %v: %+v", bound, f.Stats())
	}
	f.Close() // for those that stopped but delayed no other
	<-through
	others.Wait()
	if s := f.Stats(); s.ProduceArriving.Peak > budget/2+most+smallArrival {
		t.Errorf("frames under way held %d bytes, %d and one frame of each class are allowed", s.ProduceArriving.Peak, budget/2)
	}
}

// send sends a frame, or part of it. A sender that stops closes its connection when all others are
// done.
func (p pace) send(c *client, whole []byte, stop int) {
	for n := 0; n < len(whole); {
		if p.stops && n >= stop {
			return // receive waits for the end of the connection
		}
		m := min(p.piece, len(whole)-n)
		if _, err := c.Write(whole[n : n+m]); err != nil {
			return
		}
		n += m
		time.Sleep(p.every)
	}
}

// Large frames that arrive slowly fill all the memory that they may use, and wait for more. Small
// frames arrive meanwhile without a wait.
func TestSmallFramesDoNotWaitForLargeOnes(t *testing.T) {
	for _, key := range []int16{protocol.KeyProduce, keyMetadata} {
		t.Run(fmt.Sprint("API ", key), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, echo, func(o *Options) { o.ProduceBytes, o.OtherBytes, o.FrameTimeout = 2<<20, 2<<20, time.Hour })
				defer f.end(t)
				for i := range 42 {
					c := f.pipe.dial()
					t.Cleanup(func() { c.Close() })
					size := 1_000_000
					if i >= 40 {
						size = 40_000 // the exempt one of the small frames, if one is needed, and another
					}
					c.sendAsync(frame(key, 3, 7, make([]byte, size))[:min(40_000, size-1)])
				}
				synctest.Wait()
				if s := f.Stats(); s.ProduceArriving.Waiting+s.OtherArriving.Waiting == 0 {
					t.Fatalf("no frame waits for memory: %+v", s)
				}
				began := time.Now()
				for i := range int32(50) {
					c := f.pipe.dial()
					whole := frame(key, 3, i, make([]byte, 2000+int(i)*1200))
					c.sendAsync(whole[:1500], whole[1500:])
					c.want(t, i)
					c.Close()
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("small frames waited for %v", took)
				}
			})
		})
	}
}

// Large requests without an answer fill all the memory that they may use, and more of them wait
// for it. Small ones are answered meanwhile.
func TestSmallRequestsDoNotWaitForLargeOnes(t *testing.T) {
	for _, key := range []int16{protocol.KeyProduce, keyMetadata} {
		t.Run(fmt.Sprint("API ", key), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				large := newParked()
				f := start(t, func(r *Request) {
					if r.FrameSize() > smallArrival {
						large.handle(r)
					} else {
						echo(r)
					}
				}, func(o *Options) { o.ProduceBytes, o.OtherBytes = 2<<20, 2<<20 })
				defer f.end(t)
				var all []*client
				for i := range int32(4) {
					c := f.pipe.dial()
					t.Cleanup(func() { c.Close() })
					c.sendAsync(frame(key, 3, i, make([]byte, 900_000)))
					all = append(all, c)
					synctest.Wait()
				}
				if s := f.Stats(); s.Produce.Waiting+s.Other.Waiting != 2 || len(large.ch) != 2 {
					t.Fatalf("%d large requests are handled, and two wait for memory: %+v", len(large.ch), s)
				}
				for i := range int32(50) {
					c := f.pipe.dial()
					must(t, c.SetDeadline(time.Now().Add(time.Minute))) // passes when all goroutines wait
					c.sendAsync(frame(key, 3, i, make([]byte, 2000+int(i)*1200)))
					c.want(t, i)
					c.Close()
				}
				go func() { // the last two arrive in either order
					for range all {
						large.next().Respond(body(nil))
					}
				}()
				for i, c := range all {
					c.want(t, int32(i))
				}
			})
		})
	}
}

// Small frames that never end use all memory that both classes share. Large frames still arrive,
// one after the other.
func TestLargeFramesPassManySmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, echo, func(o *Options) { o.ProduceBytes = 1 << 20 })
		defer f.end(t)
		over := make(chan struct{})
		var small sync.WaitGroup
		defer small.Wait()
		defer close(over)
		for i := range 60 {
			c := f.pipe.dial()
			small.Go(func() {
				defer c.Close()
				whole := frame(protocol.KeyProduce, 3, 1, make([]byte, 60_000))
				time.Sleep(time.Duration(i) * time.Millisecond)
				for {
					select {
					case <-over:
						return
					default:
					}
					small.Go(func() { pace{piece: 30_010, every: 100 * time.Millisecond}.send(c, whole, 0) })
					if _, _, err := c.receive(); err != nil {
						t.Errorf("a small frame: %v", err)
						return
					}
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		for i := range int32(5) {
			c := f.pipe.dial()
			must(t, c.SetDeadline(time.Now().Add(time.Minute)))
			pace{piece: 50_000, every: 10 * time.Millisecond}.send(c, frame(protocol.KeyProduce, 3, i, make([]byte, 400_000)), 0)
			c.want(t, i)
			c.Close()
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("five large frames took %v", took)
		}
	})
}

// A client that sends without reading its answers is waited for before its next frame is received,
// so that no other frame waits for that client.
func TestReceivingFrameWaitsForNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, echo, func(o *Options) { o.ProduceBytes, o.WriteTimeout, o.FrameTimeout = 200_000, time.Hour, time.Hour })
		defer f.end(t)
		small := make([]byte, 600)
		for range 2 { // the second would be the exempt one
			c := f.pipe.dial()
			t.Cleanup(func() { c.Close() })
			c.sendAsync(slices.Concat(frame(protocol.KeyProduce, 3, 1, small), frame(protocol.KeyProduce, 3, 2, small),
				frame(protocol.KeyProduce, 3, 3, make([]byte, 80_000))[:20_000]))
			c.want(t, 1) // and not the second answer
		}
		synctest.Wait()
		began := time.Now()
		for i := range int32(3) {
			c := f.pipe.dial()
			t.Cleanup(func() { c.Close() })
			c.sendAsync(frame(protocol.KeyProduce, 3, i, make([]byte, 80_000)))
			c.want(t, i)
		}
		if took := time.Since(began); took > 2*lagTime {
			t.Errorf("others waited for %v", took)
		}
	})
}
