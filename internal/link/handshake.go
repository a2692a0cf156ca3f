package link

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/secret"
)

// The handshake. D is the end that dialed, A the one that accepted; mac is HMAC-SHA256 with the
// shared secret, over a label of the direction, what both ends have said with their nonces, and
// with TLS keying material of the connection:
//
//	D ──▶ A   a request of API key 20480: helloD
//	A ──▶ D   HE: nonceA, helloA encrypted with the key mac("accepts", helloD, nonceA)
//	D ──▶ A   PF: mac("dials", helloD, helloA); also if both are processes of one broker, which A refuses
//	A ──▶ D   RY
//	D ──▶ A   on the lane of clients, CL: ClientHello
//
// Either end sends NO with the reason instead, and closes. Without a secret, helloA is not
// encrypted and the mac is empty. The request is framed as Kafka's, and HE to CL are frames. Their
// bytes, big endian:
//
//	request  length u32 | API key u16 | version u16 (0) | correlation id u32 (0) |
//	         length of the client id i16 (-1) | helloD
//	HE       nonceA 32 | helloA, encrypted with AES-256-GCM and a nonce of zeros | tag 16
//	         without a secret: helloA
//	PF       mac 32; without a secret: none
//	RY       none
//	CL       see ClientHello
//	NO       reason u8 | cause | 0 u8 | remedy, and if there is an address | 0 u8 | address
//	mac of   label | length u32, helloD | length u32, helloA or nonceA | with TLS: its material 32
//
// What it protects from:
//
//   - A stranger who dials learns whether there is a secret, and nothing else: what A states, and
//     why two brokers do not fit, is for ends that have proved the secret. D compares first: who
//     could read helloA had to have the secret.
//   - Replay: each end's nonce is new, so an old proof never fits, and no key encrypts two hellos.
//   - Reflection: the labels differ, and an end never accepts its own identity. An attacker that
//     dials D back with D's own hello gets what only D can read, and D refuses itself.
//   - A's connection of this peer is replaced, and takes one of Options.Accepted, only after the
//     proof.
//   - Relay: with TLS the proof fits this connection only. Without TLS it does not bind the frames
//     that follow: who can change bytes on the way needs TLS to be stopped.
const (
	labelAccepts = "chronik link, accepts\x00"
	labelDials   = "chronik link, dials\x00"
)

// MinSecret is the shortest secret that New accepts, in bytes. Anyone who can dial a broker gets a
// hello to try secrets against, so they must not be guessable.
const MinSecret = 16

// proof returns the mac of a secret over what the ends have said. bound is what both ends of this
// connection, and no others, know; see binding.
func proof(s secret.Secret, label string, dialer *Hello, acceptor, bound []byte) []byte {
	m := hmac.New(sha256.New, s.Bytes())
	m.Write([]byte(label))
	for _, p := range [][]byte{dialer.appendTo(nil), acceptor} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(p)))
		m.Write(n[:])
		m.Write(p)
	}
	m.Write(bound)
	return m.Sum(nil)
}

// dials returns the proof of an end that dialed and has the first secret; empty without one.
func dials(secrets []secret.Secret, dialer, acceptor *Hello, bound []byte) []byte {
	if len(secrets) == 0 {
		return nil
	}
	return proof(secrets[0], labelDials, dialer, acceptor.appendTo(nil), bound)
}

// prove checks a proof of the end that dialed, which may be that of any secret.
func prove(secrets []secret.Secret, dialer, acceptor *Hello, bound, got []byte) *Mismatch {
	for i := range max(len(secrets), 1) {
		if hmac.Equal(got, dials(secrets[i:], dialer, acceptor, bound)) {
			return nil
		}
	}
	return unproven()
}

func unproven() *Mismatch {
	return &Mismatch{Reason: WrongSecret, Cause: "the peer did not prove that it has the secret of cluster.secret.file",
		Remedy: "use the same file at all nodes"}
}

// sealer returns the cipher of the hello of the end that accepted, for one handshake: its key
// encrypts nothing else, so its nonce is constant.
func sealer(s secret.Secret, dialer *Hello, nonce, bound []byte) cipher.AEAD {
	block, err := aes.NewCipher(proof(s, labelAccepts, dialer, nonce, bound))
	if err != nil {
		panic(err) // SHA-256 makes a key of 32 bytes
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has blocks of 16 bytes
	}
	return aead
}

// seal returns the payload of HE, for an end with the first secret.
func seal(secrets []secret.Secret, dialer, acceptor *Hello, bound []byte) []byte {
	plain := acceptor.appendTo(nil)
	if len(secrets) == 0 {
		return plain
	}
	aead := sealer(secrets[0], dialer, acceptor.nonce[:], bound)
	return aead.Seal(slices.Clone(acceptor.nonce[:]), make([]byte, aead.NonceSize()), plain, nil)
}

// unseal reads the payload of HE, which may be for any secret.
func unseal(secrets []secret.Secret, dialer *Hello, bound, p []byte) (*Hello, error) {
	plain, opened := p, len(secrets) == 0
	for _, s := range secrets {
		if len(p) < nonceSize {
			break
		}
		aead := sealer(s, dialer, p[:nonceSize], bound)
		var err error
		if plain, err = aead.Open(nil, make([]byte, aead.NonceSize()), p[nonceSize:], nil); err == nil {
			opened = true
			break
		}
	}
	if !opened {
		return nil, unproven()
	}
	h, err := parseHello(plain)
	return &h, err
}

// hello returns what this end states.
func (l *Links) hello(lane Lane) *Hello {
	h := &Hello{
		Identity: l.opts.Identity(), Lane: lane, Process: l.process, Attempt: l.attempts.Add(1),
		MinVersion: frame.MinVersion, MaxVersion: frame.MaxVersion, Secured: len(l.opts.Secrets) > 0,
	}
	if len(h.Address) > maxName {
		h.Address = ""
	}
	_, _ = rand.Read(h.nonce[:]) // it never fails
	return h
}

// check compares two hellos, and asks the daemon. from is the address of the peer's end.
func (l *Links) check(here, peer *Hello, from net.Addr) *Mismatch {
	if peer.Process != l.process {
		l.opts.Met(*peer, from, time.Now())
	}
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
	if _, earlier := l.earlier.Load(t.Address); earlier {
		here.Address = ""
	}
	deadline := time.Now().Add(l.opts.Handshake)
	if err := errors.Join(c.nc.SetWriteDeadline(deadline), c.writeNow(request(here))); err != nil {
		return fmt.Errorf("send a hello: %w", err)
	}
	p, err := c.expect(frame.HE)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		l.earlier.Store(t.Address, true)
		return fmt.Errorf("the peer closed the connection when this broker introduced itself; "+
			"a broker that runs without cluster.seeds does that, and joins when it is restarted with them; otherwise check that the address is "+
			"the listener for brokers (inter.broker.listener.name)%s: %w", plainHint(c.nc), err)
	}
	if m := TLSMismatch(err); m != nil {
		return m
	}
	if err != nil {
		return err
	}
	bound, err := binding(c.nc)
	if err != nil {
		return err
	}
	peer, err := unseal(l.opts.Secrets, here, bound, p)
	if m := (*Mismatch)(nil); errors.As(err, &m) {
		return errors.Join(m, c.refuse(m))
	} else if err != nil {
		return err
	}
	if peer.FeatureLevel >= here.FeatureLevel {
		l.earlier.Delete(t.Address)
	}
	m := l.check(here, peer, c.nc.RemoteAddr())
	if m == nil {
		c.peer = *peer
		m = t.check(peer)
	}
	proven := dials(l.opts.Secrets, here, peer, bound)
	if m != nil && here.Node == peer.Node && (m.Reason == Twin || m.Reason == WrongNode) {
		// The other process of this broker refuses this one, too, and has to know of it.
		return errors.Join(m, c.sendNow(frame.PF, proven))
	}
	if m != nil {
		return errors.Join(m, c.refuse(m))
	}
	if err := c.sendNow(frame.PF, proven); err != nil {
		return err
	}
	_, err = c.expect(frame.RY)
	if m := (*Mismatch)(nil); errors.As(err, &m) && m.Other != "" {
		other := Hello{Identity: here.Identity} // a process of which only the address is known
		other.BrokerEpoch = -1
		if other.Address = m.Other; m.Reason != Superseded {
			other.Member = 0 // it has another one, which is not known
		}
		l.opts.Met(other, nil, time.Now().Add(-l.opts.Silence))
	}
	if err != nil {
		return err
	}
	return c.agree(*peer, lane)
}

// plainHint is for a connection without TLS that the other end closed: a listener that uses TLS
// does that.
func plainHint(nc net.Conn) string {
	if _, ok := tlsState(nc); ok {
		return ""
	}
	return ", and that it has no TLS, as it has none here (security)"
}

// answer does the handshake of the end that accepted. claim is called when the peer has proved who
// it is.
func (l *Links) answer(c *Conn, hello []byte, claim func(*Hello) *Mismatch) error {
	peer, err := parseHello(hello)
	if err != nil {
		return err
	}
	if err := c.nc.SetWriteDeadline(time.Now().Add(l.opts.Handshake)); err != nil {
		return err
	}
	here := l.hello(peer.Lane)
	if peer.FeatureLevel < here.FeatureLevel {
		here.Address = ""
	}
	if m := compareSecured(here, &peer); m != nil {
		return errors.Join(m, c.refuse(m))
	}
	bound, err := binding(c.nc)
	if err != nil {
		return err
	}
	if err := c.sendNow(frame.HE, seal(l.opts.Secrets, &peer, here, bound)); err != nil {
		return err
	}
	p, err := c.expect(frame.PF)
	if err != nil {
		return err
	}
	m := prove(l.opts.Secrets, &peer, here, bound, p)
	if m == nil {
		m = l.check(here, &peer, c.nc.RemoteAddr())
	}
	if m == nil {
		m = claim(&peer)
	}
	if m != nil {
		return errors.Join(m, c.refuse(m))
	}
	if err := c.sendNow(frame.RY, nil); err != nil {
		return err
	}
	if peer.Lane == Client {
		p, err := c.expect(frame.CL)
		if err != nil {
			return err
		}
		if c.client, err = parseClientHello(p); err != nil {
			return err
		}
	}
	return c.agree(peer, peer.Lane)
}

// agree ends the handshake: from now on the frames of the lane are allowed.
func (c *Conn) agree(peer Hello, lane Lane) error {
	c.peer, c.lane = peer, lane
	c.version = min(frame.MaxVersion, peer.MaxVersion)
	if lane != Client { // its window may be closed for as long as quotas and budgets like
		tune(c.nc, lane, c.opts.Silence)
	}
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
