package link

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// offered is a tunnel that a broker has accepted.
type offered struct {
	*Tunnel
	early []byte
	node  int32
	of    *ClientHello
}

// accepts makes a broker accept tunnels.
func accepts(ch chan offered) func(*Options) {
	return func(o *Options) {
		o.Client = func(t *Tunnel, early []byte, node int32, of *ClientHello) { ch <- offered{t, early, node, of} }
	}
}

var bob = &ClientHello{Listener: "one", Host: "kafka", Port: 9094, Principal: "User:bob", PrincipalHost: "10.0.0.7",
	Mechanism: "SCRAM-SHA-512", Address: "10.0.0.7:4711", Software: "kcat", SoftwareVersion: "1"}

func TestATunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, ch := newNetwork(), make(chan offered, 1)
		a, b := n.add(t, 1, secured), n.add(t, 2, func(o *Options) { secured(o); accepts(ch)(o) })
		defer a.end(t)
		defer b.end(t)
		here, err := a.Tunnel(t.Context(), target(2), bob)
		if err != nil {
			t.Fatal(err)
		}
		there := <-ch
		if there.node != 1 || *there.of != *bob || len(there.early) != 0 {
			t.Errorf("%d %+v, and %d bytes", there.node, there.of, len(there.early))
		}
		go func() { _, _ = here.Write([]byte("request")) }()
		p := make([]byte, 7)
		if _, err := io.ReadFull(there, p); err != nil || string(p) != "request" {
			t.Errorf("%q, %v", p, err)
		}
		time.Sleep(10 * a.opts.Silence) // it has no pings
		go func() { _, _ = there.Write([]byte("answer")) }()
		if _, err := io.ReadFull(here, p[:6]); err != nil || string(p[:6]) != "answer" {
			t.Errorf("%q, %v", p, err)
		}
		_ = there.Close()
		if _, err := here.Read(p); err == nil {
			t.Error("it is still open")
		}
		_ = here.Close()
		if len(a.openTunnels())+len(b.openTunnels()) != 0 {
			t.Error("tunnels are left over")
		}
	})
}

func secured(o *Options) { o.Secrets = shared }

// Who has no proof can't act for a client, and no broker takes tunnels that it can't serve.
func TestATunnelNeedsTheProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, ch := newNetwork(), make(chan offered, 1)
		a, b := n.add(t, 1, nil), n.add(t, 2, func(o *Options) { secured(o); accepts(ch)(o) })
		c := n.add(t, 3, secured)
		defer a.end(t)
		defer b.end(t)
		defer c.end(t)
		for _, x := range []struct {
			from   *broker
			to     Target
			reason Reason
		}{{a, target(2), WrongSecret}, {b, target(3), NotAdmitted}, {c, Target{Address: "2", Node: 9, Member: 1009}, WrongNode}} {
			_, err := x.from.Tunnel(t.Context(), x.to, bob)
			if m := (*Mismatch)(nil); !errors.As(err, &m) || m.Reason != x.reason {
				t.Errorf("from %d: %v", x.from.self.Node, err)
			}
		}
		synctest.Wait()
		if len(ch) > 0 {
			t.Error("a tunnel was served")
		}
	})
}

// When the lane of metadata to a broker breaks, so do the tunnels to it, and no others.
func TestTunnelsEndWithTheLaneOfMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, ch := newNetwork(), make(chan offered, 2)
		a, b, c := n.add(t, 1, nil), n.add(t, 2, accepts(ch)), n.add(t, 3, accepts(ch))
		defer a.end(t)
		defer b.end(t)
		defer c.end(t)
		p := a.Peer(target(2))
		defer p.Close()
		synctest.Wait()
		to, err := a.Tunnel(t.Context(), target(2), bob)
		other, err2 := a.Tunnel(t.Context(), target(3), bob)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for _, d := range []*direction{n.wire().ends[0].in, n.wire().ends[0].out} {
			d.mu.Lock()
			d.lost = true
			d.mu.Unlock()
		}
		if _, err := to.Read(make([]byte, 1)); err == nil {
			t.Error("the tunnel to the silent broker is open")
		}
		time.Sleep(a.opts.Silence) // this end notices it, too
		if open := a.openTunnels(); len(open) != 1 || open[0] != other {
			t.Errorf("%d tunnels are open", len(open))
		}
		for range 2 {
			_ = (<-ch).Close()
		}
	})
}

// Links end their tunnels, at both ends.
func TestLinksEndTheirTunnels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, ch := newNetwork(), make(chan offered, 1)
		a, b := n.add(t, 1, nil), n.add(t, 2, accepts(ch))
		here, err := a.Tunnel(t.Context(), target(2), bob)
		if err != nil {
			t.Fatal(err)
		}
		there := <-ch
		a.end(t)
		if _, err := there.Read(make([]byte, 1)); err == nil {
			t.Error("it is still open")
		}
		_ = there.Close()
		b.end(t)
		if _, err := a.Tunnel(t.Context(), target(2), bob); err == nil {
			t.Error("a tunnel after the end")
		}
		_ = here.Close()
	})
}
