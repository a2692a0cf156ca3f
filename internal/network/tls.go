package network

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/share"
)

const (
	// tlsRecord is the largest plain text of a TLS record (RFC 8446, 5.1).
	tlsRecord = 16 << 10
	// tlsGather is the size of the buffer that gathers the records of a large answer for one write.
	// A write of a single record costs about as much as its encryption.
	tlsGather = 128 << 10
	// maxChain bounds a client's certificate chain.
	maxChain = 5
)

// byCertificate is Session.Mechanism of a client whose certificate names its user.
const byCertificate = "SSL"

// The results of handshakes that are failed logins.
const (
	resultCertificate = "certificate" // the client's is missing or not accepted
	resultPrincipal   = "principal"   // it names no user
)

// tlsSocket is the socket below a tls.Conn.
type tlsSocket struct {
	net.Conn
	c     *conn
	early []byte // what was read to see whether the client speaks TLS; owned by the reader
	// Owned by the reader.
	shaking bool // the handshake is not complete
	placed  bool // it has a handshake place
	barren  barren

	until    atomic.Int64 // the write deadline, in unix ns; 0 if there is none
	released atomic.Bool  // it belongs to a link, see Request.Hijack

	mu sync.Mutex
	// held[:n] are records that are not written; nil unless writeRecords is running.
	held []byte
	n    int
}

// secure does the TLS handshake of a connection that needs one. The reader calls it first.
func (c *conn) secure() error {
	if c.listener.TLS == nil {
		return nil
	}
	err := c.shakeHands()
	e, h := HandshakeEvent{Listener: c.listener, Session: c.session, Result: handshakeResult(err), Err: err}, (*handshakeError)(nil)
	if errors.As(err, &h) {
		e.Err, e.Remedy = h.err, h.remedy
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, errStopped) {
		c.srv.opts.Observer.Handshake(&e)
	}
	if e.IsLogin() {
		c.srv.opts.Observer.Login(&LoginEvent{Listener: c.listener, Peer: c.peer, Session: c.session, Mechanism: byCertificate,
			Err: h, Remedy: e.Remedy})
	}
	return err
}

// IsLogin reports whether the observer gets an event of a failed login, too.
func (e *HandshakeEvent) IsLogin() bool {
	return e.Result == resultCertificate || e.Result == resultPrincipal
}

func (c *conn) shakeHands() error {
	s := &tlsSocket{Conn: c.sock.nc, c: c, shaking: true}
	if err := s.SetDeadline(c.login.deadline); err != nil {
		return err
	}
	if c.is(connlife.Draining) { // stopReading sets a deadline after that
		return errStopped
	}
	var head [4]byte
	n, err := c.sock.nc.Read(head[:]) // the broker has waited since the connection was opened
	c.heard()
	if err != nil && isTimeout(err) {
		return c.lateOrStopped()
	}
	if err != nil {
		return err
	}
	if head[0] != 0x16 { // the type of a handshake record (RFC 8446, 5.1)
		return &handshakeError{result: "plain_text", err: errPlainText,
			remedy: "set security.protocol=" + c.listener.protocol() + " at the client"}
	}
	s.early = append(s.early, head[:n]...)
	t := tls.Server(s, c.listener.TLS.Config())
	c.mu.Lock()
	c.sock.nc, c.sock.tls = t, s
	c.mu.Unlock()
	err = t.Handshake()
	s.leave()
	s.shaking, s.barren.bytes, s.barren.records = false, 0, 0
	switch {
	case c.is(connlife.Draining), errors.Is(err, errStopped):
		return errStopped
	case err != nil && (isTimeout(err) || errors.Is(err, errLateLogin)):
		return c.lateOrStopped()
	case err != nil:
		return explainHandshake(err, s.barren.stream.Alert)
	}
	return c.certified(t)
}

// lateOrStopped is the error of a read that reached its deadline before the login was complete.
func (c *conn) lateOrStopped() error {
	if c.is(connlife.Draining) {
		return errStopped
	}
	if c.over != "" {
		return errOver
	}
	return errLateLogin
}

// certified ends the handshake: it takes the client's certificate, if there is one, and makes the
// session of a client that needs no other login.
func (c *conn) certified(t *tls.Conn) error {
	state := t.ConnectionState()
	shown := len(state.VerifiedChains) > 0
	if len(state.PeerCertificates) > maxChain {
		return &handshakeError{result: resultCertificate, err: fmt.Errorf("the client sent %d certificates, at most %d are allowed",
			len(state.PeerCertificates), maxChain),
			remedy: "give the client only its certificate and those of its intermediate authorities"}
	}
	principal, mechanism := Anonymous, ""
	if shown {
		c.login.certificate = state.PeerCertificates[0].NotAfter
		c.mu.Lock()
		c.shown = state.PeerCertificates
		c.mu.Unlock()
	}
	if !c.trusted() { // its authority was removed during the handshake, perhaps before EndUntrusted could see it
		return &handshakeError{result: resultCertificate, err: errors.New("the authority of the client's certificate was removed"),
			remedy: "give the client a certificate (ssl.keystore.location) that an authority in tls.client-ca signed"}
	}
	if of := c.listener.TLS.Principal; shown && of != nil && !c.listener.SASL {
		name, err := of(state.PeerCertificates[0])
		if err == nil {
			err = checkPrincipal(name)
		}
		if err != nil {
			return &handshakeError{result: resultPrincipal, err: fmt.Errorf("the client's certificate names no user: %w", err),
				remedy: "change tls.principal-rules or the certificate"}
		}
		principal, mechanism = name, byCertificate
	}
	c.identify(principal, mechanism, c.login.certificate)
	if mechanism != "" {
		c.srv.opts.Observer.Login(&LoginEvent{Listener: c.listener, Peer: c.peer, Session: c.session, Mechanism: mechanism})
	}
	if !c.login.pending {
		c.login.deadline = time.Time{}
		c.srv.known(c)
	}
	return nil
}

// Write implements net.Conn for a tls.Conn. The writer sets a deadline before it writes. A tls.Conn
// also writes while it reads, to answer the other end's change of keys; then the deadline may be
// long past, and Write sets one of its own.
func (s *tlsSocket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) <= len(s.held) {
		if s.n+len(p) > len(s.held) {
			if err := s.flushHeld(); err != nil {
				return 0, err // p is not held: hold would write it again, with a deadline of its own
			}
		}
		s.n += copy(s.held[s.n:], p)
		return len(p), nil
	}
	return s.writeNow(p)
}

func (s *tlsSocket) writeNow(p []byte) (int, error) {
	now := time.Now()
	if until := s.until.Load(); until != 0 && until < now.UnixNano() && !s.released.Load() && !s.shaking {
		if err := s.SetWriteDeadline(now.Add(s.c.srv.opts.WriteTimeout)); err != nil {
			return 0, err
		}
	}
	return s.Conn.Write(p)
}

// hold makes Write gather records in buf; nil ends that and writes those that are left.
func (s *tlsSocket) hold(buf []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.flushHeld()
	s.held = buf
	return err
}

// flushHeld writes the records that are held. Caller holds mu.
func (s *tlsSocket) flushHeld() error {
	if s.n == 0 {
		return nil
	}
	p := s.held[:s.n]
	s.n = 0
	_, err := s.writeNow(p)
	return err
}

// SetWriteDeadline implements net.Conn.
func (s *tlsSocket) SetWriteDeadline(t time.Time) error {
	ns := int64(0)
	if !t.IsZero() {
		ns = t.UnixNano()
	}
	s.until.Store(ns)
	return s.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (s *tlsSocket) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// below returns the socket of a connection, without TLS.
func below(nc net.Conn) net.Conn {
	for {
		switch c := nc.(type) {
		case *tls.Conn:
			nc = c.NetConn()
		case *tlsSocket:
			nc = c.Conn
		default:
			return nc
		}
	}
}

// writeRecords is writeAll for TLS: a tls.Conn makes at least one record of each write, so small
// pieces are gathered to whole records first. It has a write for each record, so several records
// are gathered for one write. An answer of any size needs two buffers, of tlsRecord and tlsGather
// bytes. When Options.ReadBytes are used up, there is no second one, which only costs more writes.
// Caller has the writing role.
func (c *conn) writeRecords(iov [][]byte) (err error) {
	if s, ok := c.sock.nc.(*tls.Conn).NetConn().(*tlsSocket); ok && c.srv.reads.TryAcquire(tlsGather) {
		defer c.srv.reads.Release(tlsGather)
		records := c.srv.opts.Pool.Get(tlsGather)
		defer records.Release()
		if err := s.hold(records.Bytes()); err != nil {
			return err
		}
		defer func() {
			if e := s.hold(nil); err == nil && e != nil {
				err = fmt.Errorf("write an answer to %s: %w", c.peer, e)
			}
		}()
	}
	buf := c.srv.opts.Pool.Get(tlsRecord)
	defer buf.Release()
	gathered := buf.Bytes()[:0]
	for _, piece := range iov {
		for len(piece) > 0 {
			if len(gathered) == 0 && len(piece) >= tlsRecord {
				n := min(len(piece), c.chunk()) / tlsRecord * tlsRecord
				if err := c.writeRecord(piece[:n]); err != nil {
					return err
				}
				piece = piece[n:]
				continue
			}
			n := min(len(piece), tlsRecord-len(gathered))
			gathered = append(gathered, piece[:n]...)
			if piece = piece[n:]; len(gathered) == tlsRecord {
				if err := c.writeRecord(gathered); err != nil {
					return err
				}
				gathered = gathered[:0]
			}
		}
	}
	if len(gathered) == 0 {
		return nil
	}
	return c.writeRecord(gathered)
}

func (c *conn) writeRecord(p []byte) error {
	if err := c.armWrite(len(p)); err != nil {
		return err
	}
	if _, err := c.sock.nc.Write(p); err != nil {
		return fmt.Errorf("write an answer to %s: %w", c.peer, err)
	}
	return nil
}

var errPlainText = errors.New("the client sent plain text, and this listener uses TLS")

// handshakeError is why a handshake failed.
type handshakeError struct {
	result string // for the Observer; one of few
	err    error
	remedy string
}

func (e *handshakeError) Error() string { return e.err.Error() + "; " + e.remedy }

func (e *handshakeError) Unwrap() error { return e.err }

// handshakeResult returns the result for the Observer.
func handshakeResult(err error) string {
	h := (*handshakeError)(nil)
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &h):
		return h.result
	case errors.Is(err, errLateLogin), errors.Is(err, errOver):
		return "late"
	}
	return "broken"
}

const refusedRemedy = "the client does not accept the certificate of this listener: check its truststore (ssl.truststore.location) and " +
	"that it connects to a name that the certificate has"

// distrusts reports whether an alert says that the client does not accept the certificate:
// bad_certificate to unknown_ca (RFC 8446, 6).
func distrusts(alert tls.AlertError) bool { return alert >= 42 && alert <= 48 }

// distrusted reports whether err is such an alert.
func distrusted(err *net.OpError) bool {
	for alert := range tls.AlertError(128) {
		if distrusts(alert) && err.Err.Error() == alert.Error() { // crypto/tls does not export the type of what it receives
			return err.Op == "remote error"
		}
	}
	return false
}

// explainHandshake returns the error of a failed handshake with what to change. plain is the last
// alert that the client sent without encryption, see Records.Alert. It counts only if this broker
// had no reason to refuse the client.
func explainHandshake(err error, plain uint8) error {
	e := &handshakeError{result: "protocol", err: fmt.Errorf("TLS handshake: %w", err),
		remedy: "use TLS 1.2 or later at the client, with the usual cipher suites"}
	op, verify := (*net.OpError)(nil), (*tls.CertificateVerificationError)(nil)
	switch {
	case errors.Is(err, share.ErrFull):
		e.result, e.remedy = "busy", "clients that connect again later, and with pauses, succeed"
	case errors.Is(err, errLongHandshake):
		e.result, e.remedy = "size", "use a shorter certificate chain at the client"
	case errors.As(err, &op) && distrusted(op):
		e.result, e.remedy = ClientRefused, refusedRemedy
	case errors.As(err, &op) && op.Op == "remote error": // another alert of the client
	case errors.As(err, &verify), strings.Contains(err.Error(), "certificate"):
		e.result, e.remedy = resultCertificate, "give the client a certificate (ssl.keystore.location) that an authority in tls.client-ca signed"
	case distrusts(tls.AlertError(plain)):
		e.result, e.remedy = ClientRefused, refusedRemedy
		e.err = fmt.Errorf("TLS handshake: remote error: %w", tls.AlertError(plain))
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.As(err, &op):
		return err // the client is gone
	}
	return e
}

// protocol returns what clients set as security.protocol.
func (l *Listener) protocol() string {
	switch {
	case l.TLS != nil && l.SASL:
		return "SASL_SSL"
	case l.TLS != nil:
		return "SSL"
	case l.SASL:
		return "SASL_PLAINTEXT"
	}
	return "PLAINTEXT"
}
