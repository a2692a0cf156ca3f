package network

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
)

// Each test of this file covers one entry of the list of faults and is named after it.

func TestFault11LengthOutOfBoundsClosesAndAllocatesNothing(t *testing.T) {
	f := start(t, func(*Request) { t.Error("handled") }, func(o *Options) { o.MaxFrame = 1000 })
	addr := f.tcp(t)
	for _, length := range []uint32{0, 1, minFrame - 1, 1001, 1 << 31, 0xffffffff, 0x7fffffff, 0x51554954} {
		c := dial(t, addr)
		c.send(t, binary.BigEndian.AppendUint32(nil, length))
		c.wantClosed(t)
		c.Close()
	}
	f.end(t)
	if s := f.Stats(); s.Produce.Acquired+s.Other.Acquired != 0 {
		t.Errorf("something was taken: %+v", s)
	}
}

func TestFault11FrameCutAtEveryByte(t *testing.T) {
	f := start(t, func(*Request) { t.Error("handled") }, nil)
	addr := f.tcp(t)
	defer f.end(t)
	whole := frame(protocol.KeyProduce, 9, 1, make([]byte, 20))
	for cut := range whole {
		c := dial(t, addr)
		c.send(t, whole[:cut])
		must(t, c.Conn.(*net.TCPConn).CloseWrite())
		c.wantClosed(t)
		c.Close()
	}
}

func TestFault11HeaderThatLies(t *testing.T) {
	f := start(t, func(*Request) { t.Error("handled") }, nil)
	addr := f.tcp(t)
	defer f.end(t)
	long := frame(keyMetadata, 1, 1, nil)
	binary.BigEndian.PutUint16(long[12:], 5000) // the client id's length
	tags := frame(keyMetadata, 9, 1, []byte{0})
	copy(tags[14:], []byte{0x7f, 0x7f}) // 127 tagged fields
	for _, bad := range [][]byte{long, tags} {
		c := dial(t, addr)
		c.send(t, bad)
		c.wantClosed(t)
		c.Close()
	}
}

func TestFault11UnknownApiOrVersionClosesAfterEarlierAnswers(t *testing.T) {
	p := newParked()
	f := start(t, p.handle, nil)
	addr := f.tcp(t)
	defer f.end(t)
	for _, bad := range [][]byte{
		frame(500, 0, 2, nil), frame(-1, 0, 2, nil), frame(protocol.KeyProduce, 2, 2, nil),
		frame(protocol.KeyProduce, 14, 2, nil), frame(keyMetadata, -1, 2, nil),
	} {
		c := dial(t, addr)
		c.send(t, frame(protocol.KeyProduce, 3, 1, nil), bad)
		p.next().Respond(body("ok"))
		c.want(t, 1)
		c.wantClosed(t)
		c.Close()
	}
}

func TestFault11UnknownApiVersionsVersionIsAnsweredInVersion0(t *testing.T) {
	f := start(t, func(r *Request) {
		if !r.Unsupported || len(r.Body) != 0 || r.Version != 9 {
			t.Errorf("%+v", r)
		}
		r.Respond(body{0, 35})
	}, nil)
	defer f.end(t)
	c := dial(t, f.tcp(t))
	defer c.Close()
	c.send(t, frame(protocol.KeyApiVersions, 9, 5, []byte("whatever that is")))
	if got := c.want(t, 5); string(got) != "\x00\x23" {
		t.Errorf("%x", got)
	}
}

func TestFault12SlowSender(t *testing.T) {
	for name, sent := range map[string][]byte{
		"length": {0, 0}, "header": {0, 0, 0, 40, 0, 0, 0, 9}, "payload": produceFrame(100)[:60],
		"large payload": produceFrame(1 << 20)[:5000],
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, func(*Request) { t.Error("handled") }, nil)
				defer f.end(t)
				c := f.pipe.dial()
				defer c.Close()
				began := time.Now()
				stopped := make(chan struct{})
				go func() { // sends single bytes, so that the connection is never idle
					defer close(stopped)
					for i := range sent {
						if _, err := c.Write(sent[i : i+1]); err != nil {
							return
						}
						if i%100 == 0 {
							time.Sleep(time.Second)
						}
					}
				}()
				c.wantClosed(t)
				if took := time.Since(began); took > 70*time.Second {
					t.Errorf("closed after %v", took)
				}
				c.Close()
				<-stopped
			})
		})
	}
}

func TestFault12SlowReaderIsBoundedInBytesAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		f := start(t, func(r *Request) {
			handled.Add(1)
			r.Respond(body(make([]byte, 10_000)))
		}, func(o *Options) { o.UnwrittenBytes = 50_000 })
		defer f.end(t)
		c := f.pipe.dial()
		defer c.Close()
		began := time.Now()
		for i := range int32(1000) {
			if _, err := c.Write(frame(protocol.KeyProduce, 3, i, nil)); err != nil {
				break
			}
		}
		if n := handled.Load(); n > 10 {
			t.Errorf("%d answers of 10,000 bytes were made for a client that reads none", n)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := f.Stats(); s.Connections != 0 {
			t.Errorf("still open after %v", time.Since(began))
		}
	})
}

func TestFault12HalfClosedClientGetsItsAnswers(t *testing.T) {
	p := newParked()
	f := start(t, p.handle, nil)
	defer f.end(t)
	c := dial(t, f.tcp(t))
	defer c.Close()
	c.send(t, frame(protocol.KeyProduce, 3, 1, nil), frame(protocol.KeyProduce, 3, 2, nil))
	must(t, c.Conn.(*net.TCPConn).CloseWrite())
	a, b := p.next(), p.next()
	b.Respond(body("b"))
	a.Respond(body("a"))
	c.want(t, 1)
	c.want(t, 2)
	c.wantClosed(t)
}

// A request that the handler has continues, its answer is dropped, and everything it held is
// released.
func TestFault12ResetInTheMiddleOfAProduce(t *testing.T) {
	p := newParked()
	f := start(t, p.handle, nil)
	c := dial(t, f.tcp(t))
	whole := produceFrame(100_000)
	c.send(t, whole, whole[:50_000])
	r := p.next()
	must(t, c.Conn.(*net.TCPConn).SetLinger(0))
	c.Close()
	for f.Stats().Connections != 0 {
		time.Sleep(time.Millisecond)
	}
	if s := f.Stats(); s.Orphans != 1 || s.Produce.Used != int64(len(whole)-4) {
		t.Errorf("one request is with the handler, the other is gone: %+v", s)
	}
	if len(r.Body) == 0 {
		t.Error("body gone before the answer")
	}
	r.Respond(body("too late"))
	f.end(t)
}

func TestFault13TenThousandIdleConnectionsAreSmall(t *testing.T) {
	f := start(t, echo, nil)
	defer f.end(t)
	n := 10_000
	if testing.Short() || testing.CoverMode() != "" || raceOrInvariants {
		n = 500
	}
	before := inUse()
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = f.pipe.dial()
	}
	for i, c := range clients { // each was used once
		c.send(t, frame(protocol.KeyProduce, 3, int32(i), make([]byte, 300)))
		c.want(t, int32(i))
	}
	each := (inUse() - before) / int64(n)
	t.Logf("%d bytes for each of %d idle connections", each, n)
	if each > 16<<10 && !raceOrInvariants {
		t.Errorf("%d bytes for each of %d idle connections", each, n)
	}
	for _, c := range clients {
		c.Close()
	}
}

func TestFault13LimitsAndStorm(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"total":  func(o *Options) { o.Limits.Connections = 3 },
		"per ip": func(o *Options) { o.Limits.PerIP = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, echo, change)
			defer f.end(t)
			addr := f.tcp(t)
			ask := func(c *client) bool {
				if _, err := c.Write(frame(keyMetadata, 1, 7, nil)); err != nil {
					return false
				}
				_, _, err := c.receive()
				return err == nil
			}
			for range 50 { // many connect, three are accepted, all close
				var in []*client
				admitted := 0
				for range 6 {
					c := dial(t, addr)
					if in = append(in, c); ask(c) {
						admitted++
					}
				}
				if admitted != 3 {
					t.Fatalf("%d of 6 were let in", admitted)
				}
				for _, c := range in {
					c.Close()
				}
				for f.Stats().Connections != 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
}

// A client that leaves requests behind can't reconnect to send more.
func TestFault13AConnectionCountsUntilItsRequestsAreAnswered(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"total":  func(o *Options) { o.Limits.Connections = 2 },
		"per ip": func(o *Options) { o.Limits.PerIP = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			p := newParked()
			f := start(t, p.handle, change)
			addr := f.tcp(t)
			var left []*Request
			for range 2 {
				c := dial(t, addr)
				c.send(t, frame(protocol.KeyProduce, 3, 1, nil), frame(protocol.KeyProduce, 3, 2, nil))
				left = append(left, p.next(), p.next())
				must(t, c.Conn.(*net.TCPConn).SetLinger(0))
				c.Close()
			}
			for f.Stats().Connections != 0 {
				time.Sleep(time.Millisecond)
			}
			for i, r := range left {
				if i%2 == 0 { // one of each remains
					r.RespondNone()
				}
			}
			out := dial(t, addr)
			defer out.Close()
			must(t, out.SetDeadline(time.Now().Add(patience)))
			if n, err := out.Read(make([]byte, 1)); n > 0 || err == nil || isTimeout(err) {
				t.Errorf("one too many was let in: %v", err)
			}
			left[1].RespondNone()
			in := dial(t, addr)
			defer in.Close()
			in.send(t, frame(protocol.KeyProduce, 3, 3, nil))
			p.next().RespondNone()
			left[3].RespondNone()
			f.end(t)
		})
	}
}

// Accept fails, waits longer each time, and resumes.
func TestFault05AcceptOutOfFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, echo, nil)
		defer f.end(t)
		for range 10 {
			f.pipe.errs <- &net.OpError{Op: "accept", Err: syscall.EMFILE}
		}
		began := time.Now()
		c := f.pipe.dial()
		defer c.Close()
		c.send(t, frame(keyMetadata, 1, 1, nil))
		c.want(t, 1)
		if took := time.Since(began); took < 2*time.Second || took > 10*time.Second {
			t.Errorf("ten failures took %v", took)
		}
	})
}

// All requests are finished or dropped, and no goroutine remains (TestMain checks).
func TestFault16PipelinedThousandThenDisconnect(t *testing.T) {
	for name, answerFirst := range map[string]int{"none answered": 0, "some answered": 300} {
		t.Run(name, func(t *testing.T) {
			p := newParked()
			f := start(t, p.handle, nil)
			c := dial(t, f.tcp(t))
			for i := range int32(1000) {
				c.send(t, frame(protocol.KeyProduce, 3, i, make([]byte, 200)))
			}
			var held []*Request
			for range 1000 {
				held = append(held, p.next())
			}
			for _, r := range held[:answerFirst] {
				r.Respond(body(make([]byte, 100)))
			}
			c.Close()
			for _, r := range held[answerFirst:] {
				r.Respond(body("not read"))
			}
			for f.Stats().Connections != 0 {
				time.Sleep(time.Millisecond)
			}
			f.end(t)
		})
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(frame(protocol.KeyProduce, 9, 1, []byte("x")))
	f.Add(append(frame(keyMetadata, 1, 1, nil), frame(protocol.KeyApiVersions, 99, 1, nil)...))
	f.Add([]byte{0, 0, 0, 200, 0, 3, 0, 1})
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := start(t, echo, func(o *Options) { o.MaxFrame = 1 << 20 })
		c := s.pipe.dial()
		go func() {
			_, _ = c.Write(sent) // the server may close at any byte
			c.Close()
		}()
		for {
			if _, _, err := c.receive(); err != nil {
				break
			}
		}
		s.end(t)
	})
}
