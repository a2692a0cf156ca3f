package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func request(h http.Handler, method, path, body string) (int, string) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost:9644", "127.0.0.1:5"
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// fixed is a broker's health that the test sets.
type fixed struct{ is health.Report }

func (f *fixed) Report(context.Context) *health.Report { return &f.is }
func (f *fixed) Phase() string                         { return f.is.Phase }

// options returns those of a starting broker.
func options() (Options, *fixed) {
	h := &fixed{health.Report{Broker: 7, Phase: "starting", Findings: []health.Finding{}}}
	return Options{
		Registry: prometheus.NewRegistry(),
		Level:    zap.NewAtomicLevel(),
		Health:   h,
		Log:      zap.NewNop(),
		Probe:    func(context.Context) error { return nil },
	}, h
}

// /readyz is the report as text, with a status that depends on Ready; /healthz is about the process
// only.
func TestReadyzIsTheReport(t *testing.T) {
	o, h := options()
	routes := Handler(o)
	low := health.Finding{
		Check:    "space",
		Severity: health.Bad,
		Subject:  "disk of /d",
		Problem:  "80 MiB are free",
		Works:    "records can be read",
	}
	note := health.Finding{Check: "clock", Severity: health.Note, Subject: "clock", Problem: "not synchronized"}
	for _, c := range []struct {
		report health.Report
		status int
		body   string
	}{
		{health.Report{Phase: "recovering logs", Progress: []string{"/d: partitions read: 3 of 7"},
			Findings: []health.Finding{{Check: health.CheckServing,
				Severity: health.Bad}}}, 503, "not ready: recovering logs\n/d: partitions read: 3 of 7\n"},
		{health.Report{Ready: true, Findings: []health.Finding{note}}, 200, "ready\n"},
		{health.Report{Ready: true, Findings: []health.Finding{low, note}}, 200,
			"ready\nbad: disk of /d: 80 MiB are free; records can be read\n"},
		{health.Report{Findings: []health.Finding{low}}, 503, "not ready\nbad: disk of /d: 80 MiB are free; records can be read\n"},
	} {
		h.is = c.report
		if status, body := request(routes, "GET", "/readyz", ""); status != c.status || body != c.body {
			t.Errorf("/readyz is %d %q, want %d %q", status, body, c.status, c.body)
		}
		if status, _ := request(routes, "GET", "/healthz", ""); status != http.StatusOK {
			t.Errorf("/healthz is %d", status)
		}
	}
}

// The answer for those who may not read findings names a certificate that is not valid, which every
// client that connects sees, and nothing else. The broker stays ready.
func TestReadyzNamesAnExpiredCertificateToEverybody(t *testing.T) {
	for _, c := range []struct {
		finding health.Finding
		body    string
	}{
		{health.Finding{Broker: 1, Check: health.CheckCertificate, Severity: health.Bad, Subject: "certificate of tls",
			Problem: "/secret.pem"},
			"ready; a certificate has expired or is not valid yet, see chronikctl cluster health\n"},
		{health.Finding{Broker: 1, Check: health.CheckCertificate, Severity: health.Warn}, "ready\n"},
		{health.Finding{Broker: 2, Check: health.CheckCertificate, Severity: health.Bad}, "ready\n"},
		{health.Finding{Broker: 1, Check: "space", Severity: health.Bad}, "ready\n"},
	} {
		o, h := options()
		o.Access.Private = true
		h.is = health.Report{Broker: 1, Ready: true, Findings: []health.Finding{c.finding}}
		if status, body := request(Handler(o), "GET", "/readyz", ""); status != http.StatusOK || body != c.body {
			t.Errorf("%+v: %d %q, want %q", c.finding, status, body, c.body)
		}
	}
}

// With ?in-sync a broker is not ready while one of its own replicas is not in sync.
func TestReadyzWaitsForReplicas(t *testing.T) {
	o, h := options()
	own := 0
	o.View = func() *View {
		return &View{Node: 2, Cluster: func() *view.Cluster {
			return &view.Cluster{Brokers: []view.Broker{{ID: 1, OutOfSync: view.Partitions{Count: 5}},
				{ID: 2, OutOfSync: view.Partitions{Count: own}}}}
		}}
	}
	for _, c := range []struct {
		ready  bool
		own    int
		path   string
		status int
	}{{true, 0, "/readyz?in-sync", 200}, {true, 1, "/readyz?in-sync", 503}, {true, 1, "/readyz", 200}, {false, 0, "/readyz?in-sync", 503}} {
		h.is, own = health.Report{Ready: c.ready}, c.own
		if status, body := request(Handler(o), "GET", c.path, ""); status != c.status {
			t.Errorf("%+v: %d %q", c, status, body)
		}
	}
}

// Everybody may ask for the replicas, and that takes a tenth of a processor, however many do.
func TestReadyzSurveysRarely(t *testing.T) { synctest.Test(t, readyzSurveysRarely) }

func readyzSurveysRarely(t *testing.T) {
	o, h := options()
	h.is = health.Report{Ready: true}
	surveys := 0
	o.View = func() *View {
		return &View{Cluster: func() *view.Cluster { surveys++; time.Sleep(10 * time.Millisecond); return &view.Cluster{} }}
	}
	routes := Handler(o)
	for begun := time.Now(); time.Since(begun) < time.Second; time.Sleep(time.Millisecond) {
		_, _ = request(routes, "GET", "/readyz?in-sync", "")
	}
	if surveys < 9 || surveys > 11 {
		t.Errorf("%d surveys in a second", surveys)
	}
}

func TestLogLevelCanBeChangedWhileRunning(t *testing.T) {
	o, _ := options()
	h, level := Handler(o), o.Level
	if code, body := request(h, "PUT", "/loglevel", `{"level":"debug"}`); code != http.StatusOK || level.Level() != zapcore.DebugLevel {
		t.Errorf("PUT: %d %s, level %v", code, body, level.Level())
	}
	if code, body := request(h, "GET", "/loglevel", ""); code != http.StatusOK || !strings.Contains(body, "debug") {
		t.Errorf("GET: %d %s", code, body)
	}
	if code, _ := request(h, "PUT", "/loglevel", `{"level":"loud"}`); code != http.StatusBadRequest || level.Level() != zapcore.DebugLevel {
		t.Errorf("a wrong level: %d, now %v", code, level.Level())
	}
	if code, _ := request(h, "PUT", "/loglevel", `{"level":"`+strings.Repeat("x", maxBody)+`"}`); code != http.StatusBadRequest {
		t.Errorf("a body beyond the limit: %d", code)
	}
}

// Go's profiles have the paths of net/http/pprof, and a refusal says what to do.
func TestGoProfiles(t *testing.T) {
	o, _ := options()
	h := Handler(o)
	for path, want := range map[string]int{
		"heap": 200, "heap?gc=1&debug=1": 200, "goroutine?debug=2": 200, "allocs": 200, "cmdline": 200,
		"profile?seconds=0.01": 200, "trace?seconds=0.01": 200,
		"profile?seconds=NaN": 400, "profile?seconds=0": 400, "trace?seconds=1e9": 400, "heap?seconds=1": 400, "none": 404,
	} {
		r := httptest.NewRequest(http.MethodGet, profilesPath+path, http.NoBody)
		r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || w.Body.Len() == 0 || (want == 200) != (w.Header().Get("X-Go-Pprof") == "") {
			t.Errorf("%s: %d, %d bytes, %v", path, w.Code, w.Body.Len(), w.Header())
		}
	}
}

// Metrics of the process are on the admin port, and not in the registry of the broker.
func TestAdminPaths(t *testing.T) {
	o, _ := options()
	metrics.NewProcess(o.Registry, "v1")
	h := Handler(o)
	for path, want := range map[string]string{"/metrics": "chronik_build_info{", "/debug/pprof/": "goroutine", "/": "/readyz",
		"/debug/pprof/goroutine?debug=1": "goroutine profile", "/metrics?": "go_goroutines "} {
		if code, body := request(h, "GET", path, ""); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, no %q", path, code, want)
		}
	}
	for _, path := range []string{"/nothing", "/metricsx"} {
		if code, _ := request(h, "GET", path, ""); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _ := request(h, "POST", "/metrics", ""); code != http.StatusMethodNotAllowed {
		t.Errorf("POST /metrics: %d", code)
	}
}

// The server ends with its listener and its goroutine (goleak checks).
func TestAdminStops(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	o, _ := options()
	a := Start(l, o)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + l.Addr().String() + "/healthz")
	must.OK(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	client.CloseIdleConnections()
	a.Stop(context.Background())
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("the port is still open")
	}
}

// Every client that reaches the port can read metrics, health, JSON and the log level, under the
// broker's own names only; health checks of HTTP/1.0 name none. Changes and expensive requests are
// allowed from its own machine, or from all with admin.remote, and never from a page of another
// site.
func TestAdminPortKeepsControlToItsMachine(t *testing.T) {
	for _, remote := range []bool{false, true} {
		o, broker := options()
		broker.is.Phase = "" // otherwise it would refuse to measure its disks
		o.Access = Access{Names: []string{"metrics.example.com"}, Addresses: []string{"broker.example.com:9092", "0.0.0.0:9644"},
			Remote: remote}
		h := Handler(o)
		for _, c := range []struct {
			host, peer   string
			header       string // NAME: VALUE
			read, change int
		}{
			{"127.0.0.1:9644", "127.0.0.1:5", "", 200, 200},
			{"localhost:9644", "[::1]:5", "", 200, 200},
			{"[::1]:9644", "[::ffff:127.0.0.1]:5", "", 200, 200},
			{"10.0.0.1:9644", "10.0.0.2:5", "", 200, 403},
			{"broker.example.com:9644", "10.0.0.2:5", "", 200, 403},
			{"Metrics.Example.com.", "10.0.0.2:5", "", 200, 403},
			{"evil.example.com:9644", "127.0.0.1:5", "", 403, 403},
			{"", "127.0.0.1:5", "", 403, 403},
			{"0.0.0.0:9644", "127.0.0.1:5", "", 403, 403},
			{"[::]:9644", "[::1]:5", "", 403, 403},
			{"localhost:9644", "127.0.0.1:5", "X-Forwarded-For: 10.0.0.2", 200, 403},
			{"localhost:9644", "127.0.0.1:5", "X-Forwarded-For: ", 200, 403},
			{"localhost:9644", "127.0.0.1:5", "X-Real-IP: 10.0.0.2", 200, 403},
			{"localhost:9644", "127.0.0.1:5", "X-Forwarded-Proto: https", 200, 403},
			{"localhost:9644", "127.0.0.1:5", "Origin: http://localhost:9644", 200, 200},
			{"localhost:9644", "127.0.0.1:5", "Origin: http://evil.example.com", 200, 403},
			{"localhost:9644", "127.0.0.1:5", "Origin: null", 200, 403},
			{"localhost:9644", "127.0.0.1:5", "Sec-Fetch-Site: cross-site", 200, 403},
		} {
			ask := func(method, path, body string) int {
				w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
				r.Host, r.RemoteAddr = c.host, c.peer
				if name, value, ok := strings.Cut(c.header, ": "); ok {
					r.Header.Set(name, value)
				}
				h.ServeHTTP(w, r)
				if w.Code == http.StatusForbidden && !strings.HasPrefix(w.Body.String(), `{"error":"`) {
					t.Errorf("%s %s from %s at %s: %s", method, path, c.peer, c.host, w.Body)
				}
				return w.Code
			}
			change := c.change
			if far := c.peer == "10.0.0.2:5" || strings.HasPrefix(c.header, "X-"); far && remote {
				change = 200
			}
			healthy, ready := c.read, 503
			if c.host == "" {
				healthy = 200
			} else if c.read == 403 {
				ready = 403
			}
			for path, want := range map[string]int{"/metrics": c.read, "/healthz": healthy, "/readyz": ready, "/v1/health": c.read,
				"/loglevel": c.read, "/v1/log": change, "/debug/pprof/cmdline": change} {
				if got := ask("GET", path, ""); got != want {
					t.Errorf("GET %s from %s at %s, %s, remote %v: %d, want %d", path, c.peer, c.host, c.header, remote, got, want)
				}
			}
			if got := ask("PUT", "/loglevel", `{"level":"info"}`); got != change {
				t.Errorf("PUT /loglevel from %s at %s, %s, remote %v: %d, want %d", c.peer, c.host, c.header, remote, got, change)
			}
			if got := ask("POST", "/v1/health", ""); got != change {
				t.Errorf("POST /v1/health from %s at %s, %s, remote %v: %d, want %d", c.peer, c.host, c.header, remote, got, change)
			}
		}
	}
}

// Only a few requests take profiles at a time.
func TestFewTakeProfilesAtATime(t *testing.T) {
	g, free, busy := newGuard(Access{}, 0), make(chan struct{}), make(chan struct{})
	h := g.control(g.disks, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { busy <- struct{}{}; <-free }))
	ended := make(chan int, maxCostly)
	for range maxCostly / 2 {
		go func() { code, _ := request(h, "GET", "/", ""); ended <- code }()
		<-busy
	}
	if code, body := request(h, "GET", "/", ""); code != http.StatusTooManyRequests {
		t.Errorf("%d %s", code, body)
	}
	close(free)
	for range maxCostly / 2 {
		if code := <-ended; code != http.StatusOK {
			t.Error(code)
		}
	}
}
