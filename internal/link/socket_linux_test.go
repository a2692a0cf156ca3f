package link

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/testing/must"
	"golang.org/x/sys/unix"
)

// sockets returns the ends of a connection over the loopback interface.
func sockets(t testing.TB) (list [2]net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer ln.Close()
	accepted := make(chan net.Conn)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	if list[0], err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	list[1] = <-accepted
	return list
}

// patient is for connections in real time. On a busy machine a reader may take longer than the
// default Silence to empty a full receive buffer, and meanwhile the socket takes no byte; a ping
// would take the writing role between two Pushes.
func patient(o *Options) { o.Ping, o.Silence = time.Hour, time.Hour }

// stream is a Source of one large body, over and over, which counts what is released.
type stream struct {
	mu       sync.Mutex
	body     [][]byte
	left     int
	released int
	filled   int // calls of Fill
}

func (s *stream) Release() {
	s.mu.Lock()
	s.released++
	s.mu.Unlock()
}

func (s *stream) Fill(v *Vector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filled++
	for ; s.left > 0 && !v.Full(); s.left-- {
		d := frame.Data{Slot: 1, NextEnd: 1}
		v.End(frame.DA, 0, d.AppendTo(v.Begin(frame.DataSize)), s, s.body...)
	}
}

func (s *stream) add(n int) {
	s.mu.Lock()
	s.left += n
	s.mu.Unlock()
}

// What fits into the socket is written on the goroutine that calls Push, before Push returns. The
// rest is written by the connection's own, and everything arrives in order and whole.
func TestPushWritesOnTheCallersGoroutine(t *testing.T) {
	ends, end := pair(t, sockets(t), patient)
	defer end()
	c := ends[1]
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
	s := &stream{body: [][]byte{body[:100], body[100:5000], body[5000:]}}
	c.sender.source = s // without Start, whose Kick would wake the connection's goroutine
	for range 5 {
		s.add(1)
		before := c.sender.last.Load()
		c.Push()
		c.sender.mu.Lock()
		taken := c.sender.taken
		c.sender.mu.Unlock()
		if c.sender.last.Load() == before || taken {
			t.Fatal("Push returned before its frame was written")
		}
		h, err := ends[0].Next()
		if err != nil || int(h.Length) != frame.DataSize+len(body) {
			t.Fatal(h, err)
		}
		if b, err := ends[0].Payload(); err != nil || !bytes.Equal(b.Bytes()[frame.DataSize:], body) {
			t.Fatal(err)
		} else {
			b.Release()
		}
	}
	const many = 2000 // 32 MiB, more than a socket's buffers
	began := time.Now()
	s.add(many)
	c.Push()
	t.Logf("Push of 32 MiB returned after %v", time.Since(began))
	if s.mu.Lock(); s.left == 0 {
		t.Error("the socket took 32 MiB that its peer does not read")
	}
	s.mu.Unlock()
	for range many {
		if _, err := ends[0].Next(); err != nil {
			t.Fatal(err)
		}
		b, err := ends[0].Payload()
		if err != nil || !bytes.Equal(b.Bytes()[frame.DataSize:], body) {
			t.Fatal(err)
		}
		b.Release()
	}
	end()
	if s.released != many+5 {
		t.Errorf("%d of %d frames were released", s.released, many+5)
	}
}

// Pushes and Kicks from many goroutines lose nothing: who finds the role taken leaves its frames to
// the holder.
func TestConcurrentPushes(t *testing.T) {
	ends, end := pair(t, sockets(t), patient)
	defer end()
	s := &stream{body: [][]byte{make([]byte, 3000)}}
	ends[1].Start(s)
	const pushers, each = 8, 500
	for i := range pushers {
		go func() {
			for range each {
				s.add(1)
				if i%2 == 0 {
					ends[1].Push()
				} else {
					ends[1].Kick()
				}
			}
		}()
	}
	for range pushers * each {
		if _, err := ends[0].Next(); err != nil {
			t.Fatal(err)
		}
	}
	end()
	if s.released != pushers*each {
		t.Errorf("%d of %d frames were released", s.released, pushers*each)
	}
}

// The kernel ends a connection whose machine is gone, and holds little back on the lane of
// metadata.
func TestSocketOptions(t *testing.T) {
	list := sockets(t)
	defer list[0].Close()
	defer list[1].Close()
	tune(list[0], Meta, 2*time.Second)
	raw, err := list[0].(*net.TCPConn).SyscallConn()
	must.OK(t, err)
	var timeout, buffer int
	_ = raw.Control(func(fd uintptr) {
		timeout, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		buffer, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
	})
	if timeout != 6000 || buffer > metaSendBuffer {
		t.Errorf("TCP_USER_TIMEOUT %d ms, SO_SNDBUF %d bytes", timeout, buffer)
	}
}

// A frame costs no allocation, neither to send nor to receive.
func TestFramesCostNoAllocation(t *testing.T) {
	if raceOrInvariants {
		t.Skip("buffers are not reused in this build")
	}
	for name, s := range loads() {
		ends, end := pair(t, sockets(t), patient)
		ends[1].sender.source = s
		if s.acks > 0 {
			ends[0].dialed, ends[1].dialed = false, true
		}
		n := testing.AllocsPerRun(200, func() {
			s.left = 1
			ends[1].Push()
			if _, err := ends[0].Next(); err != nil {
				t.Fatal(err)
			}
			b, err := ends[0].Payload()
			must.OK(t, err)
			b.Release()
		})
		end()
		if n > 0.1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// load is a Source of equal frames for a benchmark: DA with a body, or AK with acks.
type load struct {
	body [][]byte
	acks int
	left int
}

func (s *load) Fill(v *Vector) {
	for ; s.left > 0 && !v.Full(); s.left-- {
		if s.acks == 0 {
			d := frame.Data{Slot: 1, NextEnd: 1}
			v.End(frame.DA, 0, d.AppendTo(v.Begin(frame.DataSize)), nil, s.body...)
			continue
		}
		p := v.Begin(s.acks * frame.AckSize)
		for i := range s.acks {
			p = frame.Ack{Slot: uint32(i), LeaderEpoch: 1, Written: 9, Durable: 8}.AppendTo(p)
		}
		v.End(frame.AK, 0, p, nil)
	}
}

func loads() map[string]*load {
	half := func(n int) [][]byte { return [][]byte{make([]byte, n/2), make([]byte, n/2)} }
	return map[string]*load{"DA16KiB": {body: half(16 << 10)}, "DA1MiB": {body: half(1 << 20)}, "AK1": {acks: 1}, "AK1000": {acks: 1000}}
}
