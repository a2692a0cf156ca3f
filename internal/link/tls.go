package link

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/security/certs"
)

// errCertificate ends a connection one of whose ends must show a newer certificate.
var errCertificate = errors.New("a certificate of the connection has expired")

// tlsState returns the state of a connection of TLS whose handshake is complete.
func tlsState(nc net.Conn) (state tls.ConnectionState, ok bool) {
	c, ok := nc.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return state, false
	}
	state = c.ConnectionState()
	return state, state.HandshakeComplete
}

// binding returns what only the two ends of a connection of TLS know (RFC 5705, RFC 9266); nothing
// without TLS. Who relays the bytes of two connections has another binding with each end, so that
// neither end's proof fits.
func binding(nc net.Conn) ([]byte, error) {
	state, ok := tlsState(nc)
	if !ok {
		return nil, nil
	}
	bound, err := state.ExportKeyingMaterial("chronik-link", nil, 32)
	if err != nil {
		return nil, fmt.Errorf("bind a link to its TLS connection: %w", err)
	}
	return bound, nil
}

// TLSMismatch returns why a broker that this one has dialed does not connect, if err is an error of
// TLS: of the handshake, or of the first read after it. It returns nil for other errors.
func TLSMismatch(err error) *Mismatch {
	m := &Mismatch{Reason: NotAdmitted, Err: err}
	switch f := certs.Explain(err); f {
	case certs.NoFailure:
		return nil
	case certs.TheirAuthority, certs.TheirName, certs.TheirDate, certs.TheirCertificate:
		if verify := (*tls.CertificateVerificationError)(nil); errors.As(err, &verify) {
			m.Err = verify.Err
		}
		m.Cause = fmt.Sprintf("the other broker's certificate is not accepted: %v", m.Err)
		m.Remedy = theirRemedy(f)
	case certs.PlainText, certs.Disagreed:
		m.Cause = fmt.Sprintf("the other broker's listener does not use TLS: %v", err)
		m.Remedy = "set security: tls for the listener of brokers on all of them"
	case certs.OtherVersion:
		m.ByPeer, m.Cause = true, err.Error()
		m.Remedy = "brokers connect with TLS 1.3: the other end may be no broker of chronik, check cluster.seeds"
	case certs.OtherAlert:
		m.ByPeer, m.Cause, m.Remedy = true, err.Error(), "the other broker's log says more"
	case certs.OursMissing, certs.OursExpired, certs.OursAuthority, certs.OursRefused:
		m.ByPeer, m.Cause, m.Remedy = true, fmt.Sprintf("this broker's certificate: %v", err), ourRemedy(f)
	}
	return m
}

// theirRemedy is for a failure about the other broker's certificate.
func theirRemedy(f certs.Failure) string {
	switch f {
	case certs.TheirAuthority:
		return "add its authority to tls.client-ca here, or give that broker a certificate of an authority that is there"
	case certs.TheirName:
		return "give that broker a certificate with the name that is dialed, or advertise a name that it has"
	case certs.TheirDate:
		return "renew that broker's certificate (tls.certificate), or correct the clock of this machine"
	}
	return "give that broker another certificate (tls.certificate), whose authority permits its names"
}

// ourRemedy is for a failure about the certificate of this broker.
func ourRemedy(f certs.Failure) string {
	switch f {
	case certs.OursExpired:
		return "renew it (tls.certificate), or correct the clock of the other machine"
	case certs.OursAuthority, certs.OursMissing:
		return "add its authority to tls.client-ca there, or give this broker a certificate of an authority that is there"
	}
	return "its authority must be in tls.client-ca there and permit its names, and it must be valid, also as a client's " +
		"(extended key usage clientAuth)"
}

// endWithCertificates ends the connection when the certificate that the peer has shown expires. The
// end that dialed dials again, and both show what they have by then. The result stops the wait.
func (c *Conn) endWithCertificates() (stop func()) {
	state, ok := tlsState(c.nc)
	if !ok || len(state.PeerCertificates) == 0 {
		return func() {}
	}
	t := time.AfterFunc(time.Until(state.PeerCertificates[0].NotAfter), func() { _ = c.fail(errCertificate) })
	return func() { t.Stop() }
}

// errUntrusted ends a connection of a broker whose certificate would not be accepted now.
var errUntrusted = errors.New("the other broker's certificate is not accepted here any more")

// opened makes c one of the connections that EndUntrusted asks for, until the result is called.
// What is accepted may have changed during its handshake.
func (l *Links) opened(c *Conn) (ended func()) {
	l.mu.Lock()
	l.open[c] = struct{}{}
	l.mu.Unlock()
	l.verify(c.nc, func(err error) { _ = c.fail(err) })
	return func() {
		l.mu.Lock()
		delete(l.open, c)
		l.mu.Unlock()
	}
}

// EndUntrusted ends the connections whose other end has shown a certificate that Options.Trusts no
// longer accepts. The end that dialed dials again, and both show what they have by then. It is
// called when it may have changed its mind.
func (l *Links) EndUntrusted() {
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		l.verify(c.nc, func(err error) { _ = c.fail(err) })
	}
	for _, t := range l.openTunnels() {
		l.verify(t.Conn, func(error) { _ = t.Close() })
	}
}

// verify calls end if the certificates of a connection's other end are not accepted.
func (l *Links) verify(nc net.Conn, end func(error)) {
	state, ok := tlsState(nc)
	if !ok || l.opts.Trusts == nil || len(state.PeerCertificates) == 0 {
		return
	}
	if err := l.opts.Trusts(state.PeerCertificates); err != nil {
		end(fmt.Errorf("%w: %w", errUntrusted, err))
	}
}

// socket returns what is below TLS.
func socket(nc net.Conn) net.Conn {
	for {
		c, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nc
		}
		nc = c.NetConn()
	}
}
