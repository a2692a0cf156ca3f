package link

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/secret"
)

// The handshake. D is the end that dialed, A the one that accepted; mac is HMAC-SHA256 with the
// shared secret, over a label of the direction, both hellos with their nonces, and with TLS keying
// material of the connection:
//
//	D ──▶ A   a request of API key 20480: helloD
//	A ──▶ D   HE: helloA, mac("accepts", helloD, helloA)
//	D ──▶ A   PF: mac("dials", helloD, helloA)
//	A ──▶ D   RY
//
// Either end sends NO with the reason instead, and closes. Without a secret the macs are empty.
//
//   - Replay: each end's nonce is new, so an old proof never fits.
//   - Reflection: the labels differ, and an end never accepts its own identity. An attacker that
//     dials D back with D's own hello gets a proof for a connection of D with itself.
//   - A's connection of this peer is replaced only after the proof.
//   - Relay: with TLS the proof fits this connection only. Without TLS it does not bind the frames
//     that follow: who can change bytes on the way needs TLS to be stopped.
const (
	labelAccepts = "chronik link, accepts\x00"
	labelDials   = "chronik link, dials\x00"
)

// MinSecret is the shortest secret that New accepts, in bytes. Anyone who can dial a broker gets a
// proof to try secrets against, so they must not be guessable.
const MinSecret = 16

// proof returns the mac for an end with the first secret; empty without one. bound is what both ends
// of this connection, and no others, know; see binding.
func proof(secrets []secret.Secret, label string, dialer, acceptor *Hello, bound []byte) []byte {
	if len(secrets) == 0 {
		return nil
	}
	m := hmac.New(sha256.New, secrets[0].Bytes())
	m.Write([]byte(label))
	for _, h := range []*Hello{dialer, acceptor} {
		p := h.appendTo(nil)
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(p)))
		m.Write(n[:])
		m.Write(p)
	}
	m.Write(bound)
	return m.Sum(nil)
}

// prove checks a proof, which may be that of any secret.
func prove(secrets []secret.Secret, label string, dialer, acceptor *Hello, bound, got []byte) *Mismatch {
	for i := range max(len(secrets), 1) {
		if hmac.Equal(got, proof(secrets[i:], label, dialer, acceptor, bound)) {
			return nil
		}
	}
	return &Mismatch{Reason: WrongSecret, Cause: "the peer did not prove that it has the secret of cluster.secret.file",
		Remedy: "use the same file at all nodes"}
}

// hello returns what this end states.
func (l *Links) hello(lane Lane) *Hello {
	h := &Hello{
		Identity: l.opts.Identity(), Lane: lane, Process: l.process, Attempt: l.attempts.Add(1),
		MinVersion: frame.MinVersion, MaxVersion: frame.MaxVersion, Secured: len(l.opts.Secrets) > 0,
	}
	_, _ = rand.Read(h.nonce[:]) // it never fails
	return h
}

// check compares two hellos, and asks the daemon.
func (l *Links) check(here, peer *Hello) *Mismatch {
	if m := compare(here, peer); m != nil {
		return m
	}
	if l.opts.Check == nil {
		return nil
	}
	if err := l.opts.Check(*peer); err != nil {
		return refusal(err)
	}
	return nil
}

// request frames a hello as a Kafka request with a null client id.
func request(h *Hello) []byte {
	p := make([]byte, 4, 4+protocol.HeaderPrefix+2+maxName)
	p = binary.BigEndian.AppendUint16(p, uint16(protocol.KeyLink))
	p = binary.BigEndian.AppendUint16(p, 0)
	p = binary.BigEndian.AppendUint32(p, 0)
	p = binary.BigEndian.AppendUint16(p, 0xffff)
	p = h.appendTo(p)
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	return p
}

// negotiate does the handshake of the end that dialed.
func (l *Links) negotiate(c *Conn, t Target, lane Lane, dialer uint32) error {
	here := l.hello(lane)
	here.Dialer = dialer
	deadline := time.Now().Add(l.opts.Handshake)
	if err := errors.Join(c.nc.SetWriteDeadline(deadline), c.writeNow(request(here))); err != nil {
		return fmt.Errorf("send a hello: %w", err)
	}
	p, err := c.expect(frame.HE)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the peer closed the connection when this broker introduced itself; "+
			"check that the address is the listener for brokers (inter.broker.listener.name): %w", err)
	}
	if alerted(err) {
		return &Mismatch{Reason: NotAdmitted, ByPeer: true, Cause: "this broker's certificate: " + err.Error(),
			Remedy: "its authority must be in tls.client-ca there, and it must be valid, also as a client's (extended key usage clientAuth)"}
	}
	if err != nil {
		return err
	}
	peer, mac, err := parseHello(p)
	if err != nil {
		return err
	}
	bound, err := binding(c.nc)
	if err != nil {
		return err
	}
	m := l.check(here, &peer)
	if m == nil {
		m = prove(l.opts.Secrets, labelAccepts, here, &peer, bound, mac)
	}
	if m == nil {
		c.peer = peer
		m = t.check(&peer)
	}
	if m != nil {
		return errors.Join(m, c.refuse(m))
	}
	if err := c.sendNow(frame.PF, proof(l.opts.Secrets, labelDials, here, &peer, bound)); err != nil {
		return err
	}
	if _, err := c.expect(frame.RY); err != nil {
		return err
	}
	return c.agree(peer, lane)
}

// answer does the handshake of the end that accepted. claim is called when the peer has proved who
// it is.
func (l *Links) answer(c *Conn, hello []byte, claim func(*Hello) *Mismatch) error {
	peer, rest, err := parseHello(hello)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes after a hello", frame.ErrMalformed, len(rest))
	}
	if err != nil {
		return err
	}
	if err := c.nc.SetWriteDeadline(time.Now().Add(l.opts.Handshake)); err != nil {
		return err
	}
	here := l.hello(peer.Lane)
	if m := l.check(here, &peer); m != nil {
		return errors.Join(m, c.refuse(m))
	}
	bound, err := binding(c.nc)
	if err != nil {
		return err
	}
	mac := proof(l.opts.Secrets, labelAccepts, &peer, here, bound)
	if err := c.sendNow(frame.HE, append(here.appendTo(nil), mac...)); err != nil {
		return err
	}
	p, err := c.expect(frame.PF)
	if err != nil {
		return err
	}
	m := prove(l.opts.Secrets, labelDials, &peer, here, bound, p)
	if m == nil {
		m = claim(&peer)
	}
	if m != nil {
		return errors.Join(m, c.refuse(m))
	}
	if err := c.sendNow(frame.RY, nil); err != nil {
		return err
	}
	return c.agree(peer, peer.Lane)
}

// agree ends the handshake: from now on the frames of the lane are allowed.
func (c *Conn) agree(peer Hello, lane Lane) error {
	c.peer, c.lane = peer, lane
	c.version = min(frame.MaxVersion, peer.MaxVersion)
	tune(c.nc, lane, c.opts.Silence)
	return c.nc.SetWriteDeadline(time.Time{})
}

// expect reads a frame of the handshake and returns a copy of its payload. Those frames have the
// first version in all releases.
func (c *Conn) expect(k frame.Kind) ([]byte, error) {
	h, err := c.Next()
	if err != nil {
		return nil, err
	}
	b, err := c.Payload()
	if err != nil {
		return nil, err
	}
	p := slices.Clone(b.Bytes())
	b.Release()
	switch h.Kind {
	case k:
		return p, nil
	case frame.NO:
		return nil, decodeMismatch(p)
	}
	return nil, fmt.Errorf("%w: %s frame in the handshake instead of %s", frame.ErrMalformed, h.Kind, k)
}

// refuse sends the reason to the peer.
func (c *Conn) refuse(m *Mismatch) error { return c.sendNow(frame.NO, m.encode()) }

// sendNow writes a frame of the handshake.
func (c *Conn) sendNow(k frame.Kind, payload []byte) error {
	p := make([]byte, frame.HeaderSize, frame.HeaderSize+len(payload))
	frame.PutHeader(p, k, frame.MinVersion, 0, payload)
	return c.writeNow(append(p, payload...))
}

func (c *Conn) writeNow(p []byte) error {
	if _, err := c.nc.Write(p); err != nil {
		return fmt.Errorf("write to a broker: %w", err)
	}
	return nil
}
