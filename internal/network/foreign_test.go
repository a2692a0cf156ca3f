package network

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zapobserver "go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/security/origin"
)

// foreigners starts a server and returns what it logs about other protocols.
func foreigners(t *testing.T, admin string) (addr string, logged *zapobserver.ObservedLogs) {
	t.Helper()
	core, logged := zapobserver.New(zapcore.DebugLevel)
	f := start(t, func(*Request) { t.Error("handled") }, func(o *Options) { o.Log, o.AdminAddress = zap.New(core), admin })
	t.Cleanup(func() { f.end(t) })
	return f.tcp(t), logged
}

// causes returns the errors of the logged lines.
func causes(logged *zapobserver.ObservedLogs) (all []string) {
	for _, line := range logged.All() {
		all = append(all, fmt.Sprint(line.ContextMap()["error"]))
	}
	return all
}

func TestATLSClientGetsAnAlert(t *testing.T) {
	addr, logged := foreigners(t, "")
	_, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // there is nothing to verify
	if err == nil || !strings.Contains(err.Error(), "handshake failure") {
		t.Errorf("a TLS client got %v", err)
	}
	want := "the client sent a TLS handshake, and this listener does not use TLS: set security.protocol=PLAINTEXT at the client"
	if got := causes(logged); !slices.Equal(got, []string{want}) {
		t.Errorf("logged %q", got)
	}
}

func TestAnHTTPClientGetsAnAnswerThatNamesTheAdminPort(t *testing.T) {
	for admin, want := range map[string]string{
		"127.0.0.1:9644": "at http://127.0.0.1:9644/.", "[::]:9644": "on port 9644 of this host.", "": "is off: set admin.listen.",
	} {
		addr, logged := foreigners(t, admin)
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions, http.MethodHead} {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+"/metrics", bytes.NewReader(make([]byte, 10_000)))
			must(t, err)
			resp, err := http.DefaultTransport.RoundTrip(req)
			must(t, err)
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.HasSuffix(string(text), want+"\n") &&
				method != http.MethodHead {
				t.Errorf("%s: %s %q %v", method, resp.Status, text, err)
			}
		}
		if cli.SpeaksHTTP(t.Context(), new(net.Dialer).DialContext, addr) {
			t.Error("a client that asks whether HTTP is spoken takes it for an HTTP server")
		}
		wantLine := "the client sent an HTTP request to a listener of Kafka's protocol: HTTP is served on the admin port (admin.listen)"
		if got := causes(logged); !slices.Equal(got, []string{wantLine}) {
			t.Errorf("logged %q", got)
		}
	}
}

func TestForeignProtocolsAreNamed(t *testing.T) {
	for sent, want := range map[string]string{
		"SSH-2.0-OpenSSH_9.9\r\n":                      "an SSH greeting",
		"*1\r\n$4\r\nPING\r\n":                         "a Redis command",
		"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n":         "a PROXY protocol header",
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c":       "a PROXY protocol header",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":             "an HTTP request",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03": "a TLS handshake",
		"QUIT\r\n": "bad frame: length",
	} {
		addr, logged := foreigners(t, "")
		c := dial(t, addr)
		c.send(t, []byte(sent))
		if _, err := io.ReadAll(c); err != nil {
			t.Errorf("%q: %v", sent, err)
		}
		c.Close()
		if got := causes(logged); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%q: logged %q", sent, got)
		}
	}
}

// A client that has sent a request speaks Kafka's protocol. Bytes after it that look like another
// protocol are a damaged frame, and no other protocol is written between its answers.
func TestAForeignFrameBehindARequestIsABadFrame(t *testing.T) {
	core, logged := zapobserver.New(zapcore.DebugLevel)
	f := start(t, echo, func(o *Options) { o.Log = zap.New(core) })
	defer f.end(t)
	c := dial(t, f.tcp(t))
	defer c.Close()
	c.send(t, frame(keyMetadata, 3, 1, nil), []byte("GET / HTTP/1.1\r\n\r\n"))
	c.want(t, 1)
	c.wantClosed(t)
	want := fmt.Sprintf("length %d is not", binary.BigEndian.Uint32([]byte("GET ")))
	if got := causes(logged); len(got) != 1 || !strings.Contains(got[0], want) {
		t.Errorf("logged %q", got)
	}
}

// TestLogLimit: one line a minute for each address, and one for all addresses beyond a number of
// them.
func TestLogLimit(t *testing.T) {
	var n logLimiter
	now := time.Unix(1_000_000, 0)
	ip := func(i int) netip.Prefix {
		return origin.Of(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	lines := 0
	for i := range 10_000 {
		for range 3 {
			if _, ok := n.due(logSource{"m", ip(i)}, now); ok {
				lines++
			}
		}
	}
	if want := maxLogSources + 1; lines != want || len(n.seen) != want {
		t.Errorf("%d lines, %d sources are remembered; want %d", lines, len(n.seen), want)
	}
	if skipped, ok := n.due(logSource{"m", ip(1)}, now.Add(logInterval-1)); ok {
		t.Errorf("a second line within a minute, %d left out", skipped)
	}
	if skipped, ok := n.due(logSource{"m", ip(1)}, now.Add(logInterval)); !ok || skipped != 3 {
		t.Errorf("after a minute: %d left out, %t", skipped, ok)
	}
	if _, ok := n.due(logSource{"m", ip(20_000)}, now.Add(logInterval)); !ok || len(n.seen) != 2 {
		t.Errorf("another address, after a minute: %t, and %d sources are remembered", ok, len(n.seen))
	}
}

// A stranger to a listener where clients log in does not learn where the admin port is.
func TestStrangersDoNotLearnTheAdminAddress(t *testing.T) {
	for name, l := range map[string]*Listener{"SASL": {SASL: true}, "TLS": {TLS: &TLSOptions{}}, "neither": {}} {
		c := &conn{listener: l, srv: &Server{opts: Options{AdminAddress: "192.0.2.7:9644"}}}
		answer := string(badRequest([]byte("GET / HTTP/1.1"), c.adminAddress()))
		if told := strings.Contains(answer, "192.0.2.7"); told != (name == "neither") || !strings.Contains(answer, "admin") {
			t.Errorf("%s: %s", name, answer)
		}
	}
}
