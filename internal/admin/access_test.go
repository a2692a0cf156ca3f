package admin

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/testing/must"
)

const token = "0123456789abcdef0123456789abcdef"

// Where clients have rights, this machine is no operator: without a token or a certificate it gets
// health only, and so does everyone while the broker has neither.
func TestAUserOfTheMachineIsNotTheOperator(t *testing.T) {
	sum := sha256.Sum256([]byte(token))
	for _, known := range []*[sha256.Size]byte{nil, &sum} {
		o, is := options()
		is.is.Findings = []health.Finding{{Broker: 7, Severity: health.Bad, Subject: "partition salaries-0"}}
		o.Access = Access{Private: true, Token: known, Remote: true, PrivateSetting: "authorization: acl", TokenSetting: "admin.token-file"}
		h := Handler(o)
		for path, open := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 0, "/": 0, "/records?topic=a": 0,
			"/v1/health": 0, "/v1/log": 0, "/v1/logs": 0, "/v1/rights": 0, "/v1/connections": 0, "/loglevel": 0, "/debug/pprof/": 0,
			"/debug/pprof/cmdline": 0,
			"/v1/waits":            0, "/v1/waits/trace": 0, "/v1/shares": 0, "PUT /loglevel": 0, "POST /v1/health": 0} {
			for _, authorization := range []string{"", "Bearer " + token} {
				method, at, ok := strings.Cut(path, " ")
				if !ok {
					method, at = http.MethodGet, path
				}
				r := httptest.NewRequest(method, at, http.NoBody)
				r.RemoteAddr, r.Host = "127.0.0.1:5", "127.0.0.1:9644"
				if authorization != "" {
					r.Header.Set("Authorization", authorization)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				refused := open == 0 && (authorization == "" || known == nil)
				switch {
				case refused != (w.Code == http.StatusUnauthorized), open != 0 && w.Code != open:
					t.Errorf("%s with %q: %d", path, authorization, w.Code)
				case path == "/readyz" && strings.Contains(w.Body.String(), "salaries") == (authorization == "" || known == nil):
					t.Errorf("/readyz with %q: %s", authorization, w.Body)
				case refused && known == nil && !strings.Contains(w.Body.String(), "set admin.token-file"):
					t.Errorf("%s: no remedy in %s", path, w.Body)
				}
			}
		}
	}
}

// With a token, another machine without it gets health only, and with it everything; this machine
// needs none.
func TestTheTokenOpensThePortToOtherMachines(t *testing.T) {
	o, _ := options()
	sum := sha256.Sum256([]byte(token))
	o.Access.Token = &sum
	h := Handler(o)
	for _, c := range []struct {
		from, authorization      string
		metrics, level, profiles int
	}{
		{"127.0.0.1:5", "", 200, 200, 200},
		{"10.0.0.2:5", "", 401, 401, 401},
		{"10.0.0.2:5", "Bearer ", 401, 401, 401},
		{"10.0.0.2:5", "Bearer " + token[1:], 401, 401, 401},
		{"10.0.0.2:5", token, 401, 401, 401},
		{"10.0.0.2:5", "Bearer " + token, 200, 200, 200},
		{"10.0.0.2:5", "Basic OjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm", 200, 200, 200},
	} {
		for path, want := range map[string]int{"/metrics": c.metrics, "/loglevel": c.level, "/debug/pprof/": c.profiles} {
			r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
			r.RemoteAddr, r.Host = c.from, "10.0.0.1:9644"
			if c.authorization != "" {
				r.Header.Set("Authorization", c.authorization)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s from %s with %q: %d, want %d", path, c.from, c.authorization, w.Code, want)
			}
			if w.Code == http.StatusUnauthorized && (w.Header().Get("WWW-Authenticate") == "" || strings.Contains(w.Body.String(), token)) {
				t.Errorf("refusal: %v %s", w.Header(), w.Body)
			}
		}
	}
	// A web page must not use the password that a browser has stored.
	r := httptest.NewRequest(http.MethodPut, "/loglevel", strings.NewReader("level=debug"))
	r.RemoteAddr, r.Host = "10.0.0.2:5", "10.0.0.1:9644"
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("a page of another site: %d", w.Code)
	}
}

// A certificate that the listener has verified identifies a client, until its authority is removed;
// one that it has not does not.
func TestClientCertificatesOpenThePort(t *testing.T) {
	o, _ := options()
	removed := &x509.Certificate{}
	o.Access.Certificates = func(shown []*x509.Certificate) bool { return shown[0] != removed }
	h := Handler(o)
	for _, c := range []struct {
		state *tls.ConnectionState
		want  int
	}{
		{nil, 401}, {&tls.ConnectionState{}, 401}, {&tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}, 401},
		{&tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}, VerifiedChains: [][]*x509.Certificate{{{}}}}, 200},
		{&tls.ConnectionState{PeerCertificates: []*x509.Certificate{removed}, VerifiedChains: [][]*x509.Certificate{{removed}}}, 401},
	} {
		r := httptest.NewRequest(http.MethodGet, "/loglevel", http.NoBody)
		r.RemoteAddr, r.Host, r.TLS = "10.0.0.2:5", "10.0.0.1:9644", c.state
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%+v: %d, want %d", c.state, w.Code, c.want)
		}
	}
}

// The port speaks TLS with the configuration of the moment.
func TestThePortSpeaksTLS(t *testing.T) {
	ca, err := certs.NewAuthority("CA", []string{"127.0.0.1"}, time.Now())
	must.OK(t, err)
	leaf := func() *tls.Config {
		p, err := ca.Leaf("admin", []string{"127.0.0.1"}, time.Now())
		must.OK(t, err)
		pair, err := tls.X509KeyPair(p.Certificate, p.Key)
		must.OK(t, err)
		return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	o, _ := options()
	o.TLS = leaf
	s := Start(l, o)
	defer s.Stop(context.Background())
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.CertificatePEM)
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	serials := map[string]bool{}
	for range 2 {
		resp, err := (&http.Client{Transport: transport}).Get("https://" + l.Addr().String() + "/healthz")
		must.OK(t, err)
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(body) != "ok\n" {
			t.Errorf("%s, %v", body, err)
		}
		serials[resp.TLS.PeerCertificates[0].SerialNumber.String()] = true
	}
	if len(serials) != 2 {
		t.Error("the second connection got the first one's certificate")
	}
}
