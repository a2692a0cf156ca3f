package network

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

const (
	// maxHandshake bounds the bytes of a client's handshake, and those that it sends later without
	// data in between. Long certificate chains need 10 KiB.
	maxHandshake = 64 << 10
	// maxBarren bounds the records without data that a client sends; a handshake has ten. Each may
	// be a change of keys (RFC 8446, 4.6.3), which costs 15 µs of processor time and is answered,
	// and crypto/tls takes 16 of them for each byte of data. Clients change their keys once in 100
	// GiB. Records count when they are received, which may be 1,500 before their data is read.
	maxBarren = 2048
	// maxBarrenLogin is maxBarren of a client that has not logged in.
	maxBarrenLogin = 256
	// freeBarren is how many of them may be processed before the login without a handshake place:
	// a client's login has fewer.
	freeBarren = 4
)

var (
	errLongHandshake = fmt.Errorf("the client's handshake has more than %d KiB or %d records", maxHandshake>>10, maxBarrenLogin)
	errBarren        = fmt.Errorf("%w: too many TLS records of the client bring no data", errBadFrame)
)

// Records counts the records of TLS in the bytes that arrive on a connection.
type Records struct {
	head [5]byte // of a record, as far as it was received (RFC 8446, 5.1)
	got  int     // bytes of head
	rest int     // bytes of the present record that are still missing

	alert [2]byte // the level and the description of an alert, as far as it was received
	// Alert is the description of the last fatal alert that was not encrypted (RFC 8446, 6); 0:
	// none. OpenSSL refuses a certificate so also in TLS 1.3, where crypto/tls takes it for a wrong
	// record.
	Alert uint8
}

const fatalAlert = 2

// plainAlert returns the header of an alert that is not encrypted, in the version of another one.
func plainAlert(like [5]byte) [5]byte { return [5]byte{21, like[1], like[2], 0, 2} }

// Count returns how many records begin in the next bytes.
func (r *Records) Count(p []byte) (n int) {
	for len(p) > 0 {
		if r.rest > 0 {
			k := min(r.rest, len(p))
			if r.head == plainAlert(r.head) {
				copy(r.alert[len(r.alert)-r.rest:], p[:k])
			}
			if r.rest, p = r.rest-k, p[k:]; r.rest == 0 && r.head == plainAlert(r.head) && r.alert[0] == fatalAlert {
				r.Alert = r.alert[1]
			}
			continue
		}
		k := copy(r.head[r.got:], p)
		p = p[k:]
		if r.got += k; r.got == len(r.head) {
			r.got, r.rest = 0, int(r.head[3])<<8|int(r.head[4])
			n++
		}
	}
	return n
}

// barren counts what a TLS client sends without data for its requests: changes of keys, alerts,
// empty records. It belongs to the goroutine that reads.
type barren struct {
	bytes   int // received since the last data
	records int // received, less the reads that returned data
	stream  Records
}

// add counts bytes that were received.
func (b *barren) add(p []byte) {
	b.bytes += len(p)
	b.records += b.stream.Count(p)
}

// data is called after a read that returned bytes of at most one TLS record.
func (b *barren) data() { b.bytes, b.records = 0, max(0, b.records-1) }

// Read implements net.Conn for a tls.Conn. Until the login is complete it returns with a handshake
// place if there is more to compute than for an honest client. It leaves the place while it waits
// for the client.
func (s *tlsSocket) Read(p []byte) (int, error) {
	login := !s.released.Load() && (s.shaking || s.c.login.pending)
	n := copy(p, s.early)
	if s.early = s.early[n:]; n == 0 {
		s.leave()
		if s.shaking {
			s.c.await()
		}
		var err error
		if n, err = s.Conn.Read(p); err != nil {
			return n, err
		}
		if login {
			s.c.heard()
		}
	}
	s.barren.add(p[:n])
	most := maxBarren
	if login {
		most = maxBarrenLogin
	}
	if s.barren.bytes > maxHandshake || s.barren.records > most {
		if s.shaking {
			return 0, errLongHandshake
		}
		return 0, errBarren
	}
	if login && !s.placed && (s.shaking || s.barren.records > freeBarren) {
		if err := s.c.takePlace(); err != nil {
			return 0, err
		}
		s.placed = true
	}
	return n, nil
}

// leave gives the handshake place back, if there is one.
func (s *tlsSocket) leave() {
	if s.placed {
		s.placed = false
		s.c.srv.places.Leave()
	}
}

// readSocket is c.sock.nc.Read, and counts what is read over TLS.
func (c *conn) readSocket(p []byte) (int, error) {
	if c.login.pending {
		c.await()
		defer c.heard()
	}
	n, err := c.sock.nc.Read(p)
	if c.sock.tls == nil {
		return n, err
	}
	c.sock.tls.leave()
	if n > 0 {
		c.sock.tls.barren.data()
	}
	if op := (*net.OpError)(nil); err != nil && (strings.HasPrefix(err.Error(), "tls: ") || errors.As(err, &op) && op.Op == "local error") {
		err = fmt.Errorf("%w: %w", errBadFrame, err) // crypto/tls refuses a record
	}
	return n, err
}
