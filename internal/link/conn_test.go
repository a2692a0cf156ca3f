package link

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// acks is a Source of AK frames: one for each call of add.
type acks struct {
	mu     sync.Mutex
	frames []frame.Ack
	freed  int
}

func (a *acks) add(n int64) {
	a.mu.Lock()
	a.frames = append(a.frames, frame.Ack{Slot: 1, LeaderEpoch: 1, Written: n, Durable: n})
	a.mu.Unlock()
}

func (a *acks) Fill(v *Vector) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.frames) > 0 && !v.Full() {
		v.End(frame.AK, 0, a.frames[0].AppendTo(v.Begin(frame.AckSize)), a)
		a.frames = a.frames[1:]
	}
}

// Release counts the frames that are over.
func (a *acks) Release() { a.freed++ }

// pair connects two ends of the lane of data over a wire; ends[0] dialed.
func pair(t testing.TB, w [2]net.Conn, change func(*Options)) (ends [2]*Conn, end func()) {
	t.Helper()
	pool := new(bufpool.Pool)
	o := &Options{Identity: func() Identity { return identity(1) }, Dial: newNetwork().dial, Pool: pool}
	if change != nil {
		change(o)
	}
	l, err := New(*o)
	must.OK(t, err)
	var senders sync.WaitGroup
	for i := range ends {
		ends[i] = newConn(w[i], i == 0, &l.opts)
		must.OK(t, ends[i].agree(Hello{MaxVersion: frame.MaxVersion}, Data))
		senders.Go(ends[i].sender.run)
	}
	return ends, func() {
		ends[0].Close()
		ends[1].Close()
		senders.Wait()
		if n := pool.Outstanding(); n != 0 {
			t.Errorf("%d buffers were not released", n)
		}
	}
}

func onWire(w *wire) [2]net.Conn { return [2]net.Conn{w.ends[0], w.ends[1]} }

// readAcks reads acks until the connection ends.
func readAcks(c *Conn) (list []int64, err error) {
	for {
		if _, err := c.Next(); err != nil {
			return list, err
		}
		b, err := c.Payload()
		if err != nil {
			return list, err
		}
		a, err := frame.ParseAck(b.Bytes())
		b.Release()
		if err != nil {
			return list, err
		}
		list = append(list, a.Written)
	}
}

// A link that is cut at any byte delivers the frames before it, whole and in order, and nothing of
// the one that was cut.
func TestCutAtEveryByte(t *testing.T) {
	const size = frame.HeaderSize + frame.AckSize
	for cut := 1; cut <= 4*size; cut++ {
		bubble(t, func(t *testing.T) {
			w := newWire()
			w.ends[0].out.cutAt = cut
			ends, end := pair(t, onWire(w), nil)
			var source acks
			for i := range int64(6) {
				source.add(i)
			}
			ends[0].Start(&source)
			got, err := readAcks(ends[1])
			if len(got) != cut/size || err == nil {
				t.Errorf("cut at byte %d: %v, %v", cut, got, err)
			}
			for i, n := range got {
				if int64(i) != n {
					t.Errorf("cut at byte %d: %v", cut, got)
				}
			}
			end()
			if source.freed != 6 {
				t.Errorf("cut at byte %d: %d of 6 frames were released", cut, source.freed)
			}
		})
	}
}

// A flipped bit in any byte ends the connection, and no later frame is read.
func TestDamageEndsTheConnection(t *testing.T) {
	var v Vector
	v.version = 1
	v.End(frame.AK, 0, frame.Ack{Slot: 1, Written: 9}.AppendTo(v.Begin(frame.AckSize)), nil)
	whole := bytes.Clone(v.parts[0])
	for i := range whole {
		bubble(t, func(t *testing.T) {
			w := newWire()
			ends, end := pair(t, onWire(w), nil)
			damaged := bytes.Clone(whole)
			damaged[i] ^= 4
			sent := slices.Concat(damaged, whole)
			go func() { _, _ = w.ends[0].Write(sent) }()
			got, err := readAcks(ends[1])
			if len(got) > 0 || !errors.Is(err, frame.ErrChecksum) && !errors.Is(err, frame.ErrMalformed) {
				t.Errorf("byte %d: %v, %v", i, got, err)
			}
			if err := ends[1].Err(); err == nil {
				t.Errorf("byte %d: the connection is open", i)
			}
			end()
		})
	}
}

// Each end accepts only what the other one may send on its lane.
func TestKindsBelongToALaneAndAnEnd(t *testing.T) {
	for _, k := range []frame.Kind{frame.HE, frame.PF, frame.RY, frame.NO, frame.RQ, frame.RS, frame.MS, frame.VD, frame.DA, frame.HW,
		frame.SY, frame.PR} {
		bubble(t, func(t *testing.T) {
			w := newWire()
			ends, end := pair(t, onWire(w), nil)
			payload := make([]byte, max(k.EntrySize(), frame.DataSize))
			go (script{t, w.ends[0]}).write(k, payload[:max(k.EntrySize(), 20)])
			if _, err := ends[1].Next(); !errors.Is(err, frame.ErrMalformed) {
				t.Errorf("%s from a follower: %v", k, err)
			}
			end()
		})
	}
}

// An idle connection stays; one from which nothing comes for two seconds ends, at both ends.
func TestSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWire()
		ends, end := pair(t, onWire(w), nil)
		var errs [2]error
		var took [2]time.Duration
		var began time.Time
		var readers sync.WaitGroup
		for i := range ends {
			readers.Go(func() {
				_, errs[i] = ends[i].Next()
				took[i] = time.Since(began)
				ends[i].Close() // as its owner does
			})
		}
		time.Sleep(time.Hour)
		for i := range ends {
			if err := ends[i].Err(); err != nil {
				t.Errorf("end %d of an idle connection: %v", i, err)
			}
		}
		w.ends[0].out.mu.Lock()
		n := w.ends[0].out.passed / frame.HeaderSize
		w.ends[0].out.mu.Unlock()
		if n < 3600 || n > 7201 {
			t.Errorf("%d pings in an hour", n)
		}
		began = time.Now()
		w.ends[0].lose() // one direction only
		readers.Wait()
		if !errors.Is(errs[1], ErrSilent) || took[1] < 1500*time.Millisecond || took[1] > 2*time.Second {
			t.Errorf("the end that hears nothing: %v after %v", errs[1], took[1])
		}
		if errs[0] == nil || took[0] > 2*time.Second {
			t.Errorf("the end that hears everything: %v after %v", errs[0], took[0])
		}
		end()
	})
}

// A reader that is away, for a budget or a disk, does not take its own absence for silence.
func TestAbsenceOfTheReaderIsNoSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWire()
		ends, end := pair(t, onWire(w), nil)
		source := &acks{}
		ends[0].Start(source)
		go func() { _, _ = ends[0].Next() }()
		for i := range int64(5) {
			source.add(i)
			ends[0].Kick()
			h, err := ends[1].Next()
			if err != nil {
				t.Fatalf("after %d absences: %v", i, err)
			}
			if p, err := ends[1].Peek(4); err != nil || !bytes.Equal(p, []byte{0, 0, 0, 1}) || h.Kind != frame.AK {
				t.Fatalf("%s % x, %v", h.Kind, p, err)
			}
			time.Sleep(10 * time.Second)
		}
		end()
	})
}

// A peer that reads nothing ends the connection after two seconds; the memory of the frames is
// released. Push and Kick return at once all the while.
func TestSlowReader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ends, end := pair(t, onWire(newWire()), nil)
		source := &acks{}
		ends[0].Start(source)
		go func() { _, _ = ends[0].Next() }()
		began := time.Now()
		const n = 100_000
		for i := range int64(n) {
			source.add(i)
			if i%100 == 0 {
				ends[0].Push()
			}
		}
		ends[0].Kick()
		if took := time.Since(began); took > 0 {
			t.Errorf("blocked for %v", took)
		}
		<-ends[0].Done()
		if took := time.Since(began); took < 2*time.Second || took > 4*time.Second {
			t.Errorf("ended after %v: %v", took, ends[0].Err())
		}
		end()
		source.mu.Lock()
		defer source.mu.Unlock()
		if source.freed != n-len(source.frames) {
			t.Errorf("%d of %d frames were released", source.freed, n-len(source.frames))
		}
	})
}

// A peer that reads slowly but steadily is not silent.
func TestSlowButSteadyReader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWire()
		ends, end := pair(t, onWire(w), nil)
		source := &acks{}
		for i := range int64(10_000) {
			source.add(i)
		}
		ends[0].Start(source)
		go func() { _, _ = ends[0].Next() }()
		for i := range int64(10_000) {
			if _, err := ends[1].Next(); err != nil {
				t.Fatalf("frame %d: %v", i, err)
			}
			time.Sleep(time.Millisecond)
		}
		end()
	})
}

// One large frame to a peer that reads 300 KiB/s takes longer than the silence that ends a
// connection; it makes progress.
func TestLargeFrameToASlowPeer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWire()
		ends, end := pair(t, onWire(w), nil)
		send := blocks{}
		send.add(make([]byte, 4<<20))
		ends[1].Start(&send)
		buf := make([]byte, 30<<10)
		for left := 4<<20 + frame.HeaderSize + frame.DataSize; left > 0; time.Sleep(100 * time.Millisecond) {
			n, err := w.ends[0].Read(buf)
			if err != nil {
				t.Fatalf("%d bytes before the end: %v", left, ends[1].Err())
			}
			left -= n
		}
		end()
	})
}

// A goroutine may have the writing role when the connection's own has ended. What it hands over is
// released.
func TestHandOverToAnEndedConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ends, end := pair(t, onWire(newWire()), nil)
		source := &acks{}
		source.add(1)
		s := &ends[0].sender
		s.source = source
		if !s.take() {
			t.Fatal("the role is taken")
		}
		s.fill()
		end()
		if s.handOver(); source.freed != 1 {
			t.Errorf("%d frames were released", source.freed)
		}
		if ends[0].Push(); s.take() {
			t.Error("an ended connection asks its Source")
		}
	})
}

// A payload costs memory as it arrives, not as its header claims, and dropping it costs none.
func TestPayloads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWire()
		ends, end := pair(t, onWire(w), nil)
		data := make([]byte, 5<<20)
		for i := range data {
			data[i] = byte(i * 7)
		}
		send := blocks{}
		ends[1].Start(&send)
		go func() { _, _ = ends[1].Next() }()
		for _, n := range []int{0, 1, 700, readBuffer, payloadStep, payloadStep + 1, len(data)} {
			for _, drop := range []bool{false, true} {
				send.add(data[:n])
				ends[1].Kick()
				h, err := ends[0].Next()
				if err != nil || h.Kind != frame.DA {
					t.Fatal(h, err)
				}
				p, err := ends[0].Peek(frame.DataSize)
				if d, _, e := frame.ParseData(p); errors.Join(err, e) != nil || d.NextEnd != int64(n)+1 {
					t.Fatalf("%+v, %v", d, errors.Join(err, e))
				}
				if drop {
					must.OK(t, ends[0].Discard())
					continue
				}
				b, err := ends[0].Payload()
				if err != nil || !bytes.Equal(b.Bytes()[frame.DataSize:], data[:n]) {
					t.Fatalf("%d bytes: %v", n, err)
				}
				b.Release()
			}
		}
		head := make([]byte, frame.HeaderSize)
		frame.PutHeader(head, frame.DA, frame.MaxVersion, 0, nil)
		head[4], head[5] = 6, 0 // 96 MiB, of which nothing comes
		if h, err := frame.ParseHeader(head, frame.MaxVersion); err != nil || h.Length != 96<<20 {
			t.Fatal(h, err)
		}
		go func() { _, _ = w.ends[1].Write(head); w.ends[1].Close() }()
		if _, err := ends[0].Next(); err != nil {
			t.Fatal(err)
		}
		before := allocated()
		if _, err := ends[0].Payload(); !errors.Is(err, io.EOF) {
			t.Errorf("a payload that ends early: %v", err)
		}
		if grew := allocated() - before; grew > 3*payloadStep {
			t.Errorf("a claim of 96 MiB cost %d bytes", grew)
		}
		end()
	})
}

// blocks is a Source of DA frames.
type blocks struct {
	mu   sync.Mutex
	list [][]byte
}

func (b *blocks) add(p []byte) {
	b.mu.Lock()
	b.list = append(b.list, p)
	b.mu.Unlock()
}

func (b *blocks) Fill(v *Vector) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.list) > 0 && !v.Full() {
		p := b.list[0]
		b.list = b.list[1:]
		d := frame.Data{Slot: 1, NextEnd: int64(len(p)) + 1}
		v.End(frame.DA, 0, d.AppendTo(v.Begin(frame.DataSize)), nil, p[:len(p)/2], p[len(p)/2:])
	}
}

// While a broker is down, its peers dial it with growing pauses, and report that it refuses; when
// it is back they are connected within a second.
func TestRedial(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, 1, nil), n.add(t, 2, nil)
		n.cut.Store(true)
		begin := time.Now()
		p := a.Peer(target(2))
		time.Sleep(time.Minute)
		if since, err := p.dialer.Failing(); !since.Equal(begin) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("failing since %v: %v", since.Sub(begin), err)
		}
		if dials := n.dials.Load(); dials < 60 || dials > 85 {
			t.Errorf("%d dials in a minute", dials)
		}
		if refused := a.of(Refused); len(refused) != int(n.dials.Load()) || refused[0].Target != p.Target() {
			t.Errorf("%d refused dials were reported", len(refused))
		}
		n.cut.Store(false)
		time.Sleep(time.Second)
		if _, ok := p.Hello(); !ok {
			t.Error("not connected a second after the peer is back")
		}
		if _, err := p.dialer.Failing(); err != nil {
			t.Errorf("failing while it is connected: %v", err)
		}
		a.end(t)
		b.end(t)
	})
}

// A connection that ends at once each time is not dialed faster than one that is refused.
func TestReconnectStorm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		b := n.add(t, 2, func(o *Options) { o.Data = func(*Conn) {} })
		var brokers []*broker
		for i := range int32(20) {
			a := n.add(t, 10+i, nil)
			a.Follow(target(2), func(c *Conn) { drain(c) })
			brokers = append(brokers, a)
		}
		time.Sleep(time.Minute)
		if dials := n.dials.Load(); dials < 20*60 || dials > 20*85 {
			t.Errorf("%d dials by 20 brokers in a minute", dials)
		}
		for _, a := range brokers {
			a.end(t)
		}
		b.end(t)
	})
}

// Close ends what runs at any moment of a connection's life.
func TestCloseAtAnyMoment(t *testing.T) {
	for after := range 40 {
		bubble(t, func(t *testing.T) {
			n := newNetwork()
			a, b := n.add(t, 1, nil), n.add(t, 2, nil)
			p := a.Peer(target(2))
			a.Follow(target(2), func(c *Conn) { drain(c) })
			go func() { _, _ = ask(p, make([]byte, 1<<20)) }()
			for range after {
				time.Sleep(0) // lets others run
			}
			if after%2 == 0 {
				p.Close()
			}
			if after%3 == 0 {
				synctest.Wait()
			}
			b.end(t)
			a.end(t)
			a.Peer(target(2)).Close()
			b.Accept(newWire().ends[0], "", nil)
			time.Sleep(6 * time.Second) // for the call
			b.end(t)
		})
	}
}

// hooked is a Source that lets a test act while Fill runs.
type hooked struct {
	acks
	during func()
}

func (h *hooked) Fill(v *Vector) {
	h.acks.Fill(v)
	if h.during != nil {
		fn := h.during
		h.during = nil
		fn()
	}
}

// A frame that becomes pending while another goroutine has the writing role, after it has looked,
// is sent all the same: by Push and by Kick, and with frames before it or none.
func TestPushDuringFillIsNotLost(t *testing.T) {
	for i := range 4 {
		bubble(t, func(t *testing.T) {
			ends, end := pair(t, onWire(newWire()), nil)
			h := &hooked{}
			h.during = func() {
				done := make(chan struct{})
				go func() {
					h.add(2)
					if i%2 == 0 {
						ends[0].Push()
					} else {
						ends[0].Kick()
					}
					close(done)
				}()
				<-done
			}
			if i >= 2 {
				h.add(1)
			}
			ends[0].Start(h)
			for want := int64(2 - i/2); want <= 2; want++ {
				if _, err := ends[1].Next(); err != nil {
					t.Fatal(err)
				}
				b, err := ends[1].Payload()
				must.OK(t, err)
				if a, err := frame.ParseAck(b.Bytes()); err != nil || a.Written != want {
					t.Errorf("%+v, %v, want %d", a, err, want)
				}
				b.Release()
			}
			end()
		})
	}
}

// The pieces of messages may be anything: they are refused, or they cost what has arrived.
func FuzzInbox(f *testing.F) {
	whole := frame.Piece{ID: 1, Total: 3}.AppendTo(nil)
	f.Add(append(whole, 1, 2, 3), uint8(0), whole, uint8(0))
	f.Add(append(frame.Piece{ID: 1, Total: 5}.AppendTo(nil), 1, 2), frame.FlagMore,
		append(frame.Piece{ID: 1, Total: 5, Offset: 2}.AppendTo(nil), 1, 2, 3), frame.FlagNext)
	f.Add(append(frame.Piece{ID: 1, Total: frame.MaxMessage}.AppendTo(nil), 1), frame.FlagMore,
		append(frame.Piece{ID: 2, Total: frame.MaxMessage}.AppendTo(nil), 1), frame.FlagMore)
	f.Fuzz(func(t *testing.T, a []byte, flagsA uint8, b []byte, flagsB uint8) {
		budget := bufpool.NewBudget(1 << 30)
		in := inbox{budget: budget, urgent: func(uint16) bool { return false }}
		for i, p := range [][]byte{a, b, a} {
			m, err := in.add(frame.Header{Kind: frame.RQ, Flags: []uint8{flagsA, flagsB, flagsA}[i]}, p)
			if err != nil {
				if !errors.Is(err, frame.ErrMalformed) {
					t.Fatal(err)
				}
				break
			}
			if m != nil {
				if len(m.body) != int(m.Total) {
					t.Fatalf("message of %d bytes has %d", m.Total, len(m.body))
				}
				in.release(m)
			}
		}
		in.close()
		if n := budget.Used(); n != 0 {
			t.Fatalf("%d bytes are still charged", n)
		}
	})
}

// Buffered reports a frame only when all of it has arrived.
func TestBuffered(t *testing.T) {
	p := make([]byte, frame.HeaderSize)
	body := frame.Ack{Slot: 1}.AppendTo(nil)
	frame.PutHeader(p, frame.AK, frame.MinVersion, 0, body)
	p = append(p, body...)
	for n := range len(p) + 1 {
		c := &Conn{buf: slices.Clone(p), w: n, version: frame.MinVersion}
		if got, want := c.Buffered(), n == len(p); got != want {
			t.Errorf("%d of %d bytes: %t", n, len(p), got)
		}
	}
	ping := make([]byte, frame.HeaderSize)
	frame.PutHeader(ping, frame.PG, frame.MinVersion, 0, nil)
	for _, b := range []struct {
		bytes []byte
		want  bool
	}{
		{ping, false},
		{slices.Concat(ping, ping, p[:len(p)-1]), false},
		{slices.Concat(ping, ping, p), true},
	} {
		c := &Conn{buf: b.bytes, w: len(b.bytes), version: frame.MinVersion}
		if got := c.Buffered(); got != b.want {
			t.Errorf("%x with pings: %t, want %t", b.bytes, got, b.want)
		}
	}
	c := &Conn{buf: bytes.Repeat([]byte{0xff}, 64), w: 64, version: frame.MinVersion}
	if !c.Buffered() {
		t.Error("Next waits to refuse a malformed frame")
	}
}
