package link

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/security/secret"
)

var shared = []secret.Secret{secret.Of("a secret of more than sixteen bytes")}

// rejected waits until one of a broker's handshakes has failed, and returns why.
func rejected(t *testing.T, b *broker) *Mismatch {
	t.Helper()
	time.Sleep(100 * time.Millisecond)
	for _, e := range b.of(Rejected) {
		if !e.Dialed && e.From == nil {
			t.Errorf("rejected without an address: %+v", e)
		}
		if m := (*Mismatch)(nil); errors.As(e.Err, &m) {
			return m
		}
		t.Errorf("rejected without a reason: %v", e.Err)
	}
	t.Fatalf("not rejected: %+v", b.events)
	return nil
}

// Both ends learn why they do not connect, with both values and what to change.
func TestMismatchIsNamedAtBothEnds(t *testing.T) {
	cases := map[string]struct {
		here, peer func(*Identity, *Options)
		reason     Reason
		texts      []string
	}{
		"cluster name": {peer: func(i *Identity, _ *Options) { i.ClusterName = "b" }, reason: WrongCluster,
			texts: []string{"cluster.name", `"test"`, `"b"`, "cluster.seeds"}},
		"cluster id": {peer: func(i *Identity, _ *Options) { i.ClusterID = "other" }, reason: WrongCluster,
			texts: []string{"cluster id", "other"}},
		"generation": {peer: func(i *Identity, _ *Options) { i.Generation[0] = 9 }, reason: WrongGeneration,
			texts: []string{"generation", "recovered"}},
		"node id": {peer: func(i *Identity, _ *Options) { i.Node = 1 }, reason: WrongNode, texts: []string{"node.id 1"}},
		"member":  {peer: func(i *Identity, _ *Options) { i.Member = 1001 }, reason: WrongNode, texts: []string{"copy"}},
		"a copy":  {peer: func(i *Identity, _ *Options) { i.Node, i.Member = 1, 1001 }, reason: Twin, texts: []string{"two processes"}},
		"one secret": {peer: func(_ *Identity, o *Options) { o.Secrets = shared }, reason: WrongSecret,
			texts: []string{"cluster.secret.file", "not set"}},
		"other secret": {here: func(_ *Identity, o *Options) { o.Secrets = shared },
			peer: func(_ *Identity, o *Options) {
				o.Secrets = []secret.Secret{secret.Of("another secret of more than sixteen bytes")}
			}, reason: WrongSecret,
			texts: []string{"did not prove"}},
		"not admitted": {peer: func(_ *Identity, o *Options) {
			o.Admit = func(_ net.Conn, principal string) error { return fmt.Errorf("%s is no broker", principal) }
		}, reason: NotAdmitted, texts: []string{"User:broker is no broker"}},
		"removed": {peer: func(_ *Identity, o *Options) {
			o.Check = func(h Hello) error { return fmt.Errorf("node %d was removed", h.Node) }
		}, reason: NotAdmitted, texts: []string{"node 1 was removed"}},
		"no lane": {peer: func(_ *Identity, o *Options) { o.Handler = nil }, reason: NotAdmitted, texts: []string{"does not serve"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNetwork()
				var ids [2]Identity
				change := func(i int32, fn func(*Identity, *Options)) func(*Options) {
					return func(o *Options) {
						ids[i-1] = identity(i)
						if fn != nil {
							fn(&ids[i-1], o)
						}
					}
				}
				a, b := n.add(t, 1, change(1, c.here)), n.add(t, 2, change(2, c.peer))
				a.self, b.self = ids[0], ids[1]
				p := a.Peer(Target{Address: "2", Node: -1})
				for _, m := range []*Mismatch{rejected(t, a), rejected(t, b)} {
					if m.Reason != c.reason {
						t.Errorf("reason %d: %v", m.Reason, m)
					}
					for _, want := range c.texts {
						if !strings.Contains(m.Error(), want) {
							t.Errorf("%q lacks %q", m.Error(), want)
						}
					}
				}
				if _, ok := p.Hello(); ok {
					t.Error("connected")
				}
				a.end(t)
				b.end(t)
			})
		})
	}
}

func TestTheSameSecretConnects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		with := func(o *Options) { o.Secrets = shared }
		a, b := n.add(t, 1, with), n.add(t, 2, with)
		p := a.Peer(target(2))
		synctest.Wait()
		if _, err := ask(p, nil); err != nil {
			t.Error(err)
		}
		a.end(t)
		b.end(t)
	})
	weak := Options{Identity: func() Identity { return Identity{} }, Dial: newNetwork().dial, Secrets: []secret.Secret{secret.Of("short")}}
	if _, err := New(weak); err == nil {
		t.Error("a secret that can be guessed is accepted")
	}
}

// Before the cluster exists there is no id to compare.
func TestNodeWithoutAClusterConnects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, 1, nil), n.add(t, 2, nil)
		a.self.ClusterID, a.self.Generation = "", [16]byte{}
		p := a.Peer(Target{Address: "2", Node: -1})
		synctest.Wait()
		if h, ok := p.Hello(); !ok || h.ClusterID != "id" {
			t.Errorf("%+v, %t", h, ok)
		}
		a.end(t)
		b.end(t)
	})
}

// An address is not trusted: another broker than the expected one is refused, and reported.
func TestAnotherBrokerAtTheAddressIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, 1, nil), n.add(t, 2, nil)
		for _, wrong := range []Target{{Address: "2", Node: 3}, {Address: "2", Node: 2, Member: 7}} {
			p := a.Peer(wrong)
			if m := rejected(t, a); m.Reason != WrongNode {
				t.Error(m)
			}
			list := a.of(Rejected)
			if e := list[len(list)-1]; e.Peer.Member != 1002 || e.Target != wrong {
				t.Errorf("event %+v", e)
			}
			p.Close()
		}
		a.end(t)
		b.end(t)
	})
}

// script plays one end of a handshake by hand. It returns what the other end sent last.
type script struct {
	t  *testing.T
	nc net.Conn
}

func (s script) read() (frame.Kind, []byte) {
	var head [frame.HeaderSize]byte
	if _, err := io.ReadFull(s.nc, head[:]); err != nil {
		return 0, nil
	}
	h, err := frame.ParseHeader(head[:], 1)
	if err != nil {
		s.t.Fatal(err)
	}
	p := make([]byte, h.Length)
	if _, err := io.ReadFull(s.nc, p); err != nil {
		s.t.Fatal(err)
	}
	return h.Kind, p
}

func (s script) write(k frame.Kind, payload []byte) {
	p := make([]byte, frame.HeaderSize)
	frame.PutHeader(p, k, 1, 0, payload)
	if _, err := s.nc.Write(append(p, payload...)); err != nil {
		s.t.Log(err)
	}
}

// TestReplayAndReflection plays an attacker that has heard a whole handshake, and one that lets the
// victim answer its own challenge.
func TestReplayAndReflection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		with := func(o *Options) { o.Secrets = shared }
		a, b := n.add(t, 1, with), n.add(t, 2, with)
		if h := a.hello(Meta); h.nonce == a.hello(Meta).nonce {
			t.Error("a nonce is used twice")
		}

		// Replay of a dialer's bytes against b: its nonce is another one.
		dialer := a.hello(Meta)
		w := newWire()
		b.Accept(w.ends[1], "", dialer.appendTo(nil))
		s := script{t, w.ends[0]}
		kind, p := s.read()
		acceptor, err := unseal(shared, dialer, nil, p)
		if kind != frame.HE || err != nil {
			t.Fatal(kind, err)
		}
		heard := dials(shared, dialer, acceptor, nil)
		s.write(frame.PF, heard)
		if kind, _ := s.read(); kind != frame.RY {
			t.Fatalf("the right proof is answered by %s", kind)
		}
		s.nc.Close()
		synctest.Wait()
		for name, mac := range map[string]func([]byte) []byte{
			"replay":             func([]byte) []byte { return heard },
			"none":               func([]byte) []byte { return nil },
			"the acceptor's own": func(p []byte) []byte { return p[len(p)-32:] },
		} {
			w := newWire()
			b.Accept(w.ends[1], "", dialer.appendTo(nil))
			s := script{t, w.ends[0]}
			_, p := s.read()
			s.write(frame.PF, mac(p))
			if kind, p := s.read(); kind != frame.NO || decodeMismatch(p).Reason != WrongSecret {
				t.Errorf("%s: answered by %s", name, kind)
			}
			s.nc.Close()
		}

		// Replay of an acceptor's bytes against a, which dials the attacker.
		w = newWire()
		done := make(chan error, 1)
		negotiate := func(nc net.Conn) {
			c := newConn(nc, true, &a.opts)
			done <- a.negotiate(c, target(2), Meta, 1)
			c.Close()
		}
		go negotiate(w.ends[0])
		skip := make([]byte, 4)
		if _, err := io.ReadFull(w.ends[1], skip); err != nil {
			t.Fatal(err)
		}
		challenge := make([]byte, skip[3])
		if _, err := io.ReadFull(w.ends[1], challenge); err != nil {
			t.Fatal(err)
		}
		script{t, w.ends[1]}.write(frame.HE, p)
		if m := (*Mismatch)(nil); !errors.As(<-done, &m) || m.Reason != WrongSecret {
			t.Errorf("an old proof is accepted: %v", m)
		}

		// Reflection: the attacker dials a with a's own hello, and lets a answer itself.
		w, back := newWire(), newWire()
		go negotiate(w.ends[0])
		if _, err := io.ReadFull(w.ends[1], challenge); err != nil { // the length, and the first bytes
			t.Fatal(err)
		}
		rest := make([]byte, 4)
		if _, err := io.ReadFull(w.ends[1], rest); err != nil {
			t.Fatal(err)
		}
		a.Accept(back.ends[1], "", append(challenge, rest...)[14:])
		kind, p = (script{t, back.ends[0]}).read()
		script{t, w.ends[1]}.write(kind, p)
		if m := (*Mismatch)(nil); !errors.As(<-done, &m) || m.Reason != Itself {
			t.Errorf("a proves to itself: %v", m)
		}
		back.ends[0].Close()
		a.end(t)
		b.end(t)
	})
}

// A peer that says nothing, or says it byte by byte, occupies a handshake for two seconds.
func TestHandshakeHasAnEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		b := n.add(t, 2, func(o *Options) { o.Strangers = 2 })
		slow, silent := newWire(), newWire()
		from := identity(1)
		h := Hello{Identity: from, Lane: Meta, MinVersion: 1, MaxVersion: 1}
		began := time.Now()
		b.Accept(slow.ends[1], "", h.appendTo(nil))
		b.Accept(silent.ends[1], "", h.appendTo(nil))
		go func() {
			for _, err := slow.ends[0].Write([]byte("P")); err == nil; _, err = slow.ends[0].Write([]byte{'F'}) {
				time.Sleep(time.Second)
			}
		}()
		for b.Stats().Accepted > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > 2*time.Second+20*time.Millisecond {
			t.Errorf("after %v", took)
		}
		slow.ends[0].Close()
		time.Sleep(2 * time.Second) // for the goroutine above
		b.end(t)
	})
}

// Strangers without the secret take only places of their own, of which the oldest makes room,
// however many connections they make; and they learn nothing of the cluster.
func TestStrangersKeepNoBrokerOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		with := func(o *Options) { o.Secrets, o.Accepted = shared, 1 }
		a, b := n.add(t, 1, with), n.add(t, 2, with)
		stop := make(chan struct{})
		var strangers sync.WaitGroup
		for i := range 80 {
			strangers.Go(func() {
				h := Hello{Identity: identity(int32(100 + i)), Lane: Meta, Process: uint64(i), MinVersion: 1, MaxVersion: 1, Secured: true}
				if i%2 > 0 {
					h.ClusterName, h.ClusterID = "another", "other"
				}
				for {
					select {
					case <-stop:
						return
					case <-time.After(300 * time.Millisecond):
					}
					w := newWire()
					b.Accept(w.ends[1], "", h.appendTo(nil))
					told, _ := io.ReadAll(w.ends[0])
					if bytes.Contains(told, []byte("test")) || bytes.Contains(told, []byte("id")) && len(told) < 64 {
						t.Errorf("a stranger receives %q", told)
					}
					w.ends[0].Close()
				}
			})
		}
		time.Sleep(time.Second)
		if s := b.Stats(); s.Accepted != b.opts.Strangers {
			t.Errorf("%d places are taken", s.Accepted)
		}
		p := a.Peer(target(2))
		connected := time.Now()
		for _, ok := p.Hello(); !ok; _, ok = p.Hello() {
			time.Sleep(10 * time.Millisecond)
		}
		if d := time.Since(connected); d > 3*time.Second {
			t.Errorf("a broker was connected after %v", d)
		}
		for range 5 {
			time.Sleep(time.Second)
			if _, ok := p.Hello(); !ok {
				t.Error("a broker with the secret is cut off")
			}
		}
		if c := n.add(t, 3, with); true { // the only place of a broker is taken
			c.Peer(target(2))
			if m := rejected(t, c); m.Reason != Overloaded {
				t.Errorf("a second broker receives %v", m)
			}
			defer c.end(t)
		}
		close(stop)
		strangers.Wait()
		p.Close()
		a.end(t)
		b.end(t)
	})
}

// The newest connection of a Dialer wins, whatever order they arrive in; see claim.
func TestDuplicateConnections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		b := n.add(t, 2, nil)
		var live []*wire
		dial := func(change func(*Hello)) (w *wire, reason Reason) {
			h := Hello{Identity: identity(1), Lane: Meta, Process: 1, Attempt: 10, Dialer: 1, MinVersion: 1, MaxVersion: 1}
			change(&h)
			w = newWire()
			live = append(live, w)
			b.Accept(w.ends[1], "", h.appendTo(nil))
			s := script{t, w.ends[0]}
			if kind, p := s.read(); kind == frame.NO {
				return w, decodeMismatch(p).Reason
			}
			s.write(frame.PF, nil)
			if kind, p := s.read(); kind == frame.NO {
				return w, decodeMismatch(p).Reason
			}
			synctest.Wait()
			return w, 0
		}
		open := func(w *wire) bool {
			w.ends[1].out.mu.Lock()
			defer w.ends[1].out.mu.Unlock()
			return !w.ends[1].out.over
		}
		first, reason := dial(func(*Hello) {})
		if reason != 0 || !open(first) {
			t.Fatal(reason)
		}
		for name, c := range map[string]struct {
			change func(*Hello)
			want   Reason
		}{
			"an older dial":           {func(h *Hello) { h.Attempt = 9 }, Superseded},
			"an older process":        {func(h *Hello) { h.Process, h.BrokerEpoch = 2, 4 }, Superseded},
			"another member":          {func(h *Hello) { h.Member = 7 }, WrongNode},
			"another member, by Data": {func(h *Hello) { h.Member, h.Lane = 7, Data }, WrongNode},
		} {
			if _, reason := dial(c.change); reason != c.want || !open(first) {
				t.Errorf("%s: reason %d, first open: %t", name, reason, open(first))
			}
		}
		otherDialer, reason := dial(func(h *Hello) { h.Dialer, h.Attempt = 2, 3 })
		if reason != 0 || !open(first) || !open(otherDialer) {
			t.Errorf("another Dialer: reason %d", reason)
		}
		again, reason := dial(func(h *Hello) { h.Attempt = 11 })
		if reason != 0 || open(first) || !open(again) || !open(otherDialer) {
			t.Errorf("a newer dial: reason %d, first open: %t", reason, open(first))
		}
		restarted, reason := dial(func(h *Hello) { h.Process, h.Attempt, h.BrokerEpoch = 3, 1, -1 })
		if reason != 0 || open(again) || open(otherDialer) || !open(restarted) {
			t.Errorf("a new process: reason %d", reason)
		}
		b.end(t)
		for _, w := range live {
			w.ends[0].Close()
		}
	})
}

// A broker meets both processes of another one, whichever of them is connected, and each of these
// learns of the other one: where it dials it, and where it is refused because of it.
func TestBothProcessesOfABrokerAreMet(t *testing.T) {
	type sight struct {
		by, node int32
		address  string
		number   uint64
	}
	for name, x := range map[string]struct {
		older, newer int64 // broker epochs
		member       uint64
		refused      bool // the older one
	}{
		"before the copy registers":   {5, -1, 1002, false},
		"after it":                    {5, 6, 1002, true},
		"with another data directory": {5, -1, 7, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNetwork()
				var mu sync.Mutex
				met := map[sight]int{}
				add := func(node int32) *broker {
					return n.add(t, node, func(o *Options) {
						o.Met = func(h Hello, from net.Addr, at time.Time) {
							mu.Lock()
							defer mu.Unlock()
							if at.After(time.Now()) || (h.Process != 0) != (from != nil) {
								t.Errorf("met at %v, from %v: %+v", at, from, h)
							}
							met[sight{node, h.Node, h.Address, h.Process}]++
						}
					})
				}
				a, older, newer := add(1), add(2), add(3)
				older.self.Address, older.self.BrokerEpoch = "old", x.older
				newer.self.Node, newer.self.Member, newer.self.Address, newer.self.BrokerEpoch = 2, x.member, "new", x.newer
				older.Peer(Target{Address: "1", Node: -1})
				time.Sleep(100 * time.Millisecond)
				newer.Peer(Target{Address: "1", Node: -1})
				time.Sleep(10 * time.Second)
				newer.Peer(Target{Address: "2", Node: -1})
				time.Sleep(5 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				for _, s := range []sight{
					{1, 2, "old", older.process}, {1, 2, "new", newer.process}, {2, 2, "new", newer.process}, {3, 2, "old", older.process},
				} {
					if met[s] < 3 {
						t.Errorf("%+v: met %d times", s, met[s])
					}
				}
				if x.refused && met[sight{2, 2, "new", 0}] < 3 || x.member != 1002 && met[sight{3, 2, "old", 0}] < 3 {
					t.Errorf("who is refused does not learn where the other process is: %+v", met)
				}
				if met[sight{2, 2, "old", older.process}]+met[sight{3, 2, "new", newer.process}] > 0 {
					t.Errorf("a process meets itself: %+v", met)
				}
				mu.Unlock()
				for _, b := range []*broker{a, older, newer} {
					b.end(t)
				}
				mu.Lock()
			})
		})
	}
}

// A data connection is not served before the one that it replaces is done.
func TestReplacedDataConnectionEndsFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		var running atomic.Int32
		b := n.add(t, 2, func(o *Options) {
			o.Data = func(c *Conn) {
				if running.Add(1) > 1 {
					t.Error("two at a time")
				}
				drain(c)
				time.Sleep(time.Second) // it has to clean up
				running.Add(-1)
			}
		})
		a := n.add(t, 1, nil)
		d := a.Follow(target(2), func(c *Conn) { drain(c) })
		time.Sleep(time.Second)
		n.wire().ends[0].Close()
		time.Sleep(5 * time.Second)
		if running.Load() != 1 || len(b.of(Connected)) < 2 {
			t.Errorf("%d run, %d were connected", running.Load(), len(b.of(Connected)))
		}
		d.Close()
		a.end(t)
		b.end(t)
	})
}

// However often the follower dials: while a connection is not done, no other one is served.
func TestReplacedDataConnectionThatDoesNotEnd(t *testing.T) {
	for _, redial := range []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second} {
		bubble(t, func(t *testing.T) {
			n := newNetwork()
			var running atomic.Int32
			resume := make(chan struct{})
			b := n.add(t, 2, func(o *Options) {
				o.Data = func(c *Conn) {
					if running.Add(1) > 1 {
						t.Errorf("dialed each %v: two at a time", redial)
					}
					drain(c)
					<-resume
					running.Add(-1)
				}
			})
			a := n.add(t, 1, nil)
			d := a.Follow(target(2), func(c *Conn) {
				time.AfterFunc(redial, c.Close)
				drain(c)
			})
			time.Sleep(20 * time.Second)
			close(resume)
			d.Close()
			a.end(t)
			b.end(t)
		})
	}
}

// A later version states more of itself than this one knows. Both ends prove all of it, and
// connect.
func TestTheHelloOfALaterVersion(t *testing.T) {
	later := Hello{Identity: identity(3), Lane: Data, MinVersion: 1, MaxVersion: 2, Secured: true, flags: 0x82, extra: []byte("later")}
	unsecured := Hello{Lane: Meta, flags: 0xfe}
	for name, p := range map[string][]byte{"fields and flags": later.appendTo(nil), "flags": unsecured.appendTo(nil)} {
		h, err := parseHello(p)
		if got := h.appendTo(nil); err != nil || !bytes.Equal(got, p) {
			t.Errorf("%s: % x was parsed and is now % x, %v", name, p, got, err)
		}
	}
	here := &Hello{Identity: identity(4), Lane: Data, MinVersion: 1, MaxVersion: 1, Secured: true}
	bound := []byte("bound")
	opened, err := unseal(shared, here, bound, seal(shared, here, &later, bound))
	if err != nil || !bytes.Equal(opened.extra, later.extra) || !opened.Secured {
		t.Fatalf("%+v, %v", opened, err)
	}
	if m := prove(shared, &later, here, bound, dials(shared, &later, here, bound)); m != nil {
		t.Error(m)
	}
	less := later
	less.extra = nil
	if m := prove(shared, &later, here, bound, dials(shared, &less, here, bound)); m == nil {
		t.Error("what a later version states is not proved")
	}
	other := later.appendTo(nil)
	other[0]++
	if _, err := parseHello(other); !errors.Is(err, frame.ErrMalformed) || !strings.Contains(err.Error(), "hello of version 2") {
		t.Error(err)
	}
}

// FuzzHello: every hello is refused, or is the encoding of what it was read as; and so is a refusal
// harmless, whatever it contains.
func FuzzHello(f *testing.F) {
	h := Hello{Identity: identity(3), Lane: Data, Process: 4, Attempt: 5, Dialer: 6, MinVersion: 1, MaxVersion: 2, Secured: true}
	f.Add(h.appendTo(nil))
	f.Add(append(h.appendTo(nil), 0))
	h.Address = "a:1"
	f.Add(h.appendTo(nil))
	f.Add(h.appendTo(nil)[:helloFixed+2])
	f.Add(bytes.Repeat([]byte{0xff}, 400))
	f.Fuzz(func(t *testing.T, p []byte) {
		m := decodeMismatch(p)
		if len(m.Error()) > 4*len(p)+100 || len(m.encode()) > 3<<10 {
			t.Fatalf("%d bytes make a text of %d", len(p), len(m.Error()))
		}
		h, err := parseHello(p)
		if err != nil {
			if !errors.Is(err, frame.ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if got := h.appendTo(nil); !bytes.Equal(got, p) {
			t.Fatalf("% x was parsed and is now % x", p, got)
		}
	})
}

// FuzzClientHello: every statement about a client is refused, or is the encoding of what it was
// read as.
func FuzzClientHello(f *testing.F) {
	h := ClientHello{Listener: "one", Host: "kafka", Port: 9094, Principal: "User:bob", Address: "10.0.0.1:5", Software: "kcat"}
	f.Add(h.encode())
	f.Add(h.encode()[:9])
	f.Add(append(h.encode(), 0))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, err := parseClientHello(p)
		if err != nil {
			if !errors.Is(err, frame.ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if got := h.encode(); !bytes.Equal(got, p) {
			t.Fatalf("% x was parsed and is now % x", p, got)
		}
	})
}
