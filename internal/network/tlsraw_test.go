package network

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Types of records (RFC 8446, 5.1) and of handshake messages (RFC 8446, 4; RFC 5246, 7.4).
const (
	recordAlert     = 21
	recordHandshake = 22
	recordData      = 23

	messageHelloRequest = 0
	messageClientHello  = 1
	messageCertificate  = 11
	messageKeyUpdate    = 24
)

// rawTLS is a client with a record layer of its own, for records that crypto/tls does not send. Its
// handshake is that of crypto/tls. Both versions use AES-128-GCM and SHA-256.
type rawTLS struct {
	net.Conn // reads with crypto/tls
	raw      net.Conn
	version  uint16
	aead     cipher.AEAD
	iv       []byte // all of it (TLS 1.3), or the part that is not sent (TLS 1.2)
	seq      uint64
	secret   []byte // of the client's traffic, TLS 1.3
}

// seize does a handshake on nc and takes the client's keys.
func seize(t testing.TB, nc net.Conn, version uint16) *rawTLS {
	t.Helper()
	tap := &tapped{Conn: nc}
	var keys bytes.Buffer
	c := tls.Client(tap, &tls.Config{RootCAs: testCA().pool(), ServerName: "broker", MinVersion: version, MaxVersion: version,
		KeyLogWriter: &keys, Time: func() time.Time { return today },
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}})
	must(t, c.Handshake())
	w := &rawTLS{Conn: c, raw: nc, version: version}
	// A line of the key log is LABEL, the client's random number and the secret, in hex.
	logged := func(label string) (random, secret []byte) {
		for line := range strings.Lines(keys.String()) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == label {
				random, _ = hex.DecodeString(f[1])
				secret, _ = hex.DecodeString(f[2])
			}
		}
		return random, secret
	}
	if version == tls.VersionTLS13 {
		if suite := c.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
			t.Fatalf("the handshake chose %s; these tests need a processor with AES", tls.CipherSuiteName(suite))
		}
		_, w.secret = logged("CLIENT_TRAFFIC_SECRET_0")
		w.rekey(t)
		return w
	}
	random, master := logged("CLIENT_RANDOM")
	// A record's header, that of the ServerHello, its version and the random number.
	block := prf12(master, "key expansion", append(bytes.Clone(tap.first[11:43]), random...), 2*16+2*4)
	w.use(t, block[:16], block[32:36])
	w.seq = 1 // the Finished message was 0
	return w
}

// tapped remembers the first bytes that were read.
type tapped struct {
	net.Conn
	first []byte
}

func (c *tapped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if len(c.first) < 64 {
		c.first = append(c.first, p[:n]...)
	}
	return n, err
}

// expand is HKDF-Expand-Label (RFC 8446, 7.1) without a context.
func expand(t testing.TB, secret []byte, label string, n int) []byte {
	t.Helper()
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(append(append(info, byte(6+len(label))), "tls13 "+label...), 0)
	out, err := hkdf.Expand(sha256.New, secret, string(info), n)
	must(t, err)
	return out
}

// prf12 is the pseudorandom function of TLS 1.2 (RFC 5246, 5).
func prf12(secret []byte, label string, seed []byte, n int) (out []byte) {
	seed = append([]byte(label), seed...)
	sum := func(parts ...[]byte) []byte {
		h := hmac.New(sha256.New, secret)
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	for a := sum(seed); len(out) < n; a = sum(a) {
		out = append(out, sum(a, seed)...)
	}
	return out[:n]
}

func (w *rawTLS) rekey(t testing.TB) {
	t.Helper()
	w.use(t, expand(t, w.secret, "key", 16), expand(t, w.secret, "iv", 12))
	w.seq = 0
}

func (w *rawTLS) use(t testing.TB, key, iv []byte) {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err == nil {
		w.aead, err = cipher.NewGCM(block)
	}
	must(t, err)
	w.iv = iv
}

// record returns the next record.
func (w *rawTLS) record(kind byte, text []byte) []byte {
	seq := binary.BigEndian.AppendUint64(nil, w.seq)
	w.seq++
	if w.version == tls.VersionTLS12 {
		head := []byte{kind, 3, 3, 0, 0}
		binary.BigEndian.PutUint16(head[3:], uint16(8+len(text)+w.aead.Overhead()))
		extra := binary.BigEndian.AppendUint16(append(bytes.Clone(seq), kind, 3, 3), uint16(len(text)))
		return w.aead.Seal(append(head, seq...), append(bytes.Clone(w.iv), seq...), text, extra)
	}
	nonce := bytes.Clone(w.iv)
	for i, b := range seq {
		nonce[4+i] ^= b
	}
	inner := append(bytes.Clone(text), kind)
	head := []byte{recordData, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(head[3:], uint16(len(inner)+w.aead.Overhead()))
	return w.aead.Seal(head, nonce, inner, bytes.Clone(head))
}

// keyUpdate returns the record that changes the client's keys, and changes them.
func (w *rawTLS) keyUpdate(t testing.TB, answer bool) []byte {
	t.Helper()
	asks := byte(0)
	if answer {
		asks = 1
	}
	r := w.record(recordHandshake, []byte{messageKeyUpdate, 0, 0, 1, asks})
	w.secret = expand(t, w.secret, "traffic upd", 32)
	w.rekey(t)
	return r
}

// split returns p in records of n bytes.
func (w *rawTLS) split(p []byte, n int) (all []byte) {
	for len(p) > 0 {
		m := min(n, len(p))
		all = append(all, w.record(recordData, p[:m])...)
		p = p[m:]
	}
	return all
}

// Write sends each p in a record.
func (w *rawTLS) Write(p []byte) (int, error) {
	if _, err := w.raw.Write(w.record(recordData, p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flood sends what next returns until the server closes the connection, at most `most` bytes. It
// returns how many bytes the server answered.
func (w *rawTLS) flood(next func() []byte, most int) (answered int64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		answered, _ = io.Copy(io.Discard, w.raw)
	}()
	for ended, err := false, error(nil); !ended && err == nil && most > 0; {
		var n int
		n, err = w.raw.Write(next())
		most -= n
		select {
		case <-done:
			ended = true
		default:
		}
	}
	_ = w.raw.Close()
	<-done
	return answered
}
