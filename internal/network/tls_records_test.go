package network

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/share"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// barrenFlood is a flood of records without data.
type barrenFlood struct {
	name    string
	version uint16
	records func(w *rawTLS) func() []byte // returns the next ones
	cause   string                        // in the log; %s stands for that of this package
	between bool                          // crypto/tls ends it if no data comes in between
}

const floodCause = "TLS records of the client bring no data"

func barrenFloods(t testing.TB) []barrenFlood {
	each := func(kind byte, text ...byte) func(*rawTLS) func() []byte {
		return func(w *rawTLS) func() []byte { return func() []byte { return w.record(kind, text) } }
	}
	updates := func(answer bool) func(*rawTLS) func() []byte {
		return func(w *rawTLS) func() []byte { return func() []byte { return w.keyUpdate(t, answer) } }
	}
	// A message of 256 KiB, the largest that crypto/tls takes, which never ends.
	long := func(size int) func(*rawTLS) func() []byte {
		return func(w *rawTLS) func() []byte {
			next := []byte{messageCertificate, 3, 0xff, 0xff}
			return func() []byte {
				p := w.record(recordHandshake, next)
				next = make([]byte, size)
				return p
			}
		}
	}
	tooMany := "too many non-advancing records"
	return []barrenFlood{
		{"key updates", tls.VersionTLS13, updates(false), tooMany, true},
		{"key updates with answers", tls.VersionTLS13, updates(true), tooMany, true},
		{"empty records", tls.VersionTLS13, each(recordData), "too many ignored records", true},
		{"alerts", tls.VersionTLS13, each(recordAlert, 1, 90), "too many ignored records", true}, // user_canceled
		{"a long message", tls.VersionTLS13, long(16 << 10), floodCause, false},
		{"a long message in short records", tls.VersionTLS13, long(1), floodCause, false},
		{"a handshake", tls.VersionTLS13, each(recordHandshake, messageClientHello, 0, 0, 0), "tls: ", false},
		{"empty records", tls.VersionTLS12, each(recordData), "too many ignored records", true},
		{"alerts", tls.VersionTLS12, each(recordAlert, 1, 100), "too many ignored records", true},
		{"a handshake", tls.VersionTLS12, each(recordHandshake, messageClientHello, 0, 0, 0), "tls: ", false},
		{"a request for a handshake", tls.VersionTLS12, each(recordHandshake, messageHelloRequest, 0, 0, 0), "no renegotiation", false},
		{"a long message", tls.VersionTLS12, long(16 << 10), floodCause, false},
		{"another cipher", tls.VersionTLS12, each(20, 1), "unexpected message", false},
	}
}

// Records that bring no data end a connection, before the login and after it, and also if data
// comes in between. Without data crypto/tls ends most of these floods.
func TestRecordsWithoutData(t *testing.T) {
	for _, flood := range barrenFloods(t) {
		for _, state := range []string{"no login", "before the login", "logged in"} {
			for _, between := range []bool{false, true} {
				if between && !flood.between {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %s, %v", flood.name, tls.VersionName(flood.version), state, between), func(t *testing.T) {
					testBarrenFlood(t, flood, state, between)
				})
			}
		}
	}
}

func testBarrenFlood(t *testing.T, flood barrenFlood, state string, between bool) {
	core, logs := observer.New(zap.InfoLevel)
	seen := &recorder{}
	f := start(t, func(*Request) { t.Error("served") }, func(o *Options) {
		o.Log, o.Observer, o.Authenticator = zap.New(core), seen, &users{}
	})
	addr := f.secured(t, tls.NoClientCert, func(l *Listener) { l.SASL = state != "no login" })
	w := seize(t, dial(t, addr).Conn, flood.version)
	limit := maxBarren
	switch state {
	case "before the login":
		limit = maxBarrenLogin
	case "logged in":
		(&client{w}).login(t, "bob", "secret")
	}
	next, cause := flood.records(w), flood.cause
	if between { // the bytes of a request that arrives slowly
		data, junk, n := message(1, strings.Repeat("x", 50_000)), next, 0
		if state != "before the login" {
			data = frame(keyMetadata, 3, 1, make([]byte, 50_000))
		}
		next, cause = func() []byte {
			if n++; n%8 > 0 {
				return junk()
			}
			b := data[0]
			data = data[1:]
			return w.record(recordData, []byte{b})
		}, floodCause
	}
	answered := w.flood(next, 1<<20)
	f.waitNone()
	f.end(t)
	if !slices.Contains(seen.told, "secure closed: bad_frame") {
		t.Errorf("told %q", seen.told)
	}
	if all := logs.All(); len(all) != 1 || !strings.Contains(fmt.Sprint(all[0].ContextMap()["error"]), cause) {
		t.Errorf("logged %v, want %q", all, cause)
	}
	if most := int64(limit*32 + 1000); answered > most { // a change of keys has 27 bytes
		t.Errorf("answered %d bytes, at most %d are expected", answered, most)
	}
	if f.places.Held() != 0 {
		t.Errorf("%d places are held", f.places.Held())
	}
}

// Odd but honest clients are served: those that send a record for each byte, also when thousands of
// these records wait in the socket behind large ones, and those that change their keys at times.
func TestManySmallRecordsAreServed(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, sasl := range []bool{false, true} {
			p := newParked()
			f := start(t, func(r *Request) {
				if r.CorrelationID == 1 {
					p.handle(r)
				} else {
					echo(r)
				}
			}, func(o *Options) { o.Authenticator = &users{} })
			addr := f.secured(t, tls.NoClientCert, func(l *Listener) { l.SASL = sasl })
			w := seize(t, dial(t, addr).Conn, version)
			c := &client{w}
			if sasl {
				bytewise := &client{&inBytes{w}}
				bytewise.login(t, "bob", "secret")
			}
			c.send(t, frame(keyMetadata, 3, 1, nil))
			first := p.next() // while it is parked, the following records fill the socket's buffer
			big := frame(protocol.KeyProduce, 3, 2, make([]byte, 300_000))
			small := frame(protocol.KeyProduce, 3, 3, make([]byte, 5_000))
			go func() { _, _ = w.raw.Write(slices.Concat(w.split(big, tlsRecord), w.split(small, 1))) }()
			echo(first)
			c.want(t, 1)
			c.want(t, 2)
			c.want(t, 3)
			if version == tls.VersionTLS13 {
				for id := int32(4); id < 100; id++ {
					if _, err := w.raw.Write(w.keyUpdate(t, id%2 == 0)); err != nil {
						t.Fatal(err)
					}
					c.send(t, frame(keyMetadata, 3, id, nil))
					c.want(t, id)
				}
			}
			_ = w.raw.Close()
			f.end(t)
		}
	}
}

// inBytes sends each byte in a record.
type inBytes struct{ *rawTLS }

func (c *inBytes) Write(p []byte) (int, error) {
	if _, err := c.raw.Write(c.split(p, 1)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Before the login, what a client sends without data is processed at a handshake place: a storm of
// such clients leaves the processors that a storm of handshakes leaves. Ordinary logins need none.
func TestRecordsWithoutDataNeedAPlace(t *testing.T) {
	f := start(t, echo, func(o *Options) { o.Authenticator = &users{} })
	addr := f.secured(t, tls.NoClientCert, func(l *Listener) { l.SASL = true })
	w := seize(t, dial(t, addr).Conn, tls.VersionTLS13)
	c := &client{w}
	c.send(t, choose(1, "WORD"))
	c.wantChoice(t, 1, 0)
	all := share.Half()
	for range all {
		must(t, f.places.Take(t.Context(), nil, origin.Of(remoteIP(w.raw))))
	}
	c.send(t, frame(protocol.KeyApiVersions, 0, 2, nil)) // waits for no place
	c.want(t, 2)
	var updates []byte
	for range 2 * freeBarren {
		updates = append(updates, w.keyUpdate(t, true)...)
	}
	if _, err := w.raw.Write(updates); err != nil {
		t.Fatal(err)
	}
	for f.places.Waiting() == 0 {
		runtime.Gosched()
	}
	for range all {
		f.places.Leave()
	}
	c.send(t, message(3, "hello"))
	c.wantMessage(t, 3, 0, "go on")
	c.send(t, message(4, "bob secret"))
	c.wantMessage(t, 4, 0, "welcome")
	c.send(t, frame(keyMetadata, 3, 5, nil))
	c.want(t, 5)
	if held := f.places.Held(); held != 0 {
		t.Errorf("%d of %d places are held", held, all)
	}
	_ = w.raw.Close()
	f.end(t)
}

// fragmented sends the first handshake message, the ClientHello, in records of n bytes, one each
// pause.
type fragmented struct {
	net.Conn
	n     int
	pause time.Duration
	done  bool
}

func (c *fragmented) Write(p []byte) (int, error) {
	if c.done {
		return c.Conn.Write(p)
	}
	c.done = true
	for rest := p[5:]; len(rest) > 0; {
		n := min(c.n, len(rest))
		if _, err := c.Conn.Write(append([]byte{p[0], p[1], p[2], byte(n >> 8), byte(n)}, rest[:n]...)); err != nil {
			return 0, err
		}
		rest = rest[n:]
		time.Sleep(c.pause)
	}
	return len(p), nil
}

// A ClientHello may be cut into records, but not into very many.
func TestFragmentsOfAClientHello(t *testing.T) {
	for result, n := range map[string]int{"ok": 10, "size": 1} {
		seen := &recorder{}
		f := start(t, echo, func(o *Options) { o.Observer = seen })
		raw := dial(t, f.secured(t, tls.NoClientCert, nil))
		c := overTLS(&fragmented{Conn: raw.Conn, n: n}, nil)
		c.sendAsync(frame(keyMetadata, 3, 1, nil))
		if result == "ok" {
			c.want(t, 1)
		} else {
			c.wantClosed(t)
		}
		_ = raw.Close()
		f.waitNone()
		f.end(t)
		if !slices.Contains(seen.told, "secure handshake: "+result) {
			t.Errorf("told %q, want %s", seen.told, result)
		}
	}
}

// However many records of a ClientHello come in time, the handshake is over at the deadline.
func TestSlowClientHello(t *testing.T) {
	testCA()
	synctest.Test(t, func(t *testing.T) {
		f, pipe, seen := startSecure(t)
		raw := pipe.dial()
		c := overTLS(&fragmented{Conn: raw.Conn, n: 10, pause: time.Second}, nil)
		var client sync.WaitGroup
		client.Go(func() { _ = c.Conn.(*tls.Conn).Handshake() })
		for left, wait := range []time.Duration{time.Nanosecond, 10*time.Second - time.Nanosecond} {
			time.Sleep(wait)
			synctest.Wait()
			if n := f.Stats().Connections; n != 1-left {
				t.Errorf("%d connections after %v", n, wait)
			}
		}
		_ = raw.Close()
		client.Wait()
		synctest.Wait()
		f.end(t)
		if !slices.Contains(seen.told, "secure handshake: late") {
			t.Errorf("told %q", seen.told)
		}
	})
}

// extended adds an extension to the ClientHello.
type extended struct {
	net.Conn
	add  []byte
	done bool
}

func (c *extended) Write(p []byte) (int, error) {
	if c.done {
		return c.Conn.Write(p)
	}
	c.done = true
	out := append(bytes.Clone(p), c.add...)
	longer := func(at int) { // a length of two bytes
		binary.BigEndian.PutUint16(out[at:], binary.BigEndian.Uint16(out[at:])+uint16(len(c.add)))
	}
	longer(3)            // the record
	longer(7)            // the message; the first byte of its length stays
	at := 5 + 4 + 2 + 32 // the session's id
	at += 1 + int(p[at]) // the cipher suites
	at += 2 + int(p[at])<<8 + int(p[at+1])
	at += 1 + int(p[at]) // the compression methods
	longer(at)
	if _, err := c.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// What a client may write into its ClientHello: names of any length, early data.
func TestOddClientHellos(t *testing.T) {
	protocols := make([]string, 200)
	for i := range protocols {
		protocols[i] = strings.Repeat("p", 255)
	}
	for name, c := range map[string]struct {
		config *tls.Config
		add    []byte
		result string
	}{
		"a long name": {config: &tls.Config{ServerName: strings.Repeat("n", 60_000)}, result: "ok"},
		"protocols":   {config: &tls.Config{NextProtos: protocols}, result: "ok"},
		"early data":  {config: &tls.Config{}, add: []byte{0, 42, 0, 0}, result: "protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			seen := &recorder{}
			f := start(t, echo, func(o *Options) { o.Observer, o.Log = seen, zap.New(core) })
			raw := dial(t, f.secured(t, tls.NoClientCert, nil))
			config := c.config.Clone()
			config.InsecureSkipVerify = true
			config.MinVersion = tls.VersionTLS13
			over := &client{tls.Client(&extended{Conn: raw, add: c.add, done: c.add == nil}, config)}
			over.sendAsync(frame(keyMetadata, 3, 1, nil))
			if c.result == "ok" {
				over.want(t, 1)
			} else {
				over.wantClosed(t)
			}
			_ = raw.Close()
			f.waitNone()
			f.end(t)
			if !slices.Contains(seen.told, "secure handshake: "+c.result) {
				t.Errorf("told %q, want %s", seen.told, c.result)
			}
			logged := ""
			for _, line := range logs.All() {
				logged += fmt.Sprint(line.ContextMap())
			}
			if len(logged) > 1000 || c.add != nil && !strings.Contains(logged, name) {
				t.Errorf("logged %.1000q", logged)
			}
		})
	}
}
