package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/chronik-io/chronik/internal/daemon/config"
	"github.com/chronik-io/chronik/internal/diagnose"
	"github.com/chronik-io/chronik/internal/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func request(h http.Handler, method, path, body string) (int, string) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost:9644", "127.0.0.1:5"
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func routes(t *testing.T) (http.Handler, *readiness, zap.AtomicLevel) {
	t.Helper()
	reg := metrics.NewRegistry()
	ready := newReadiness(metrics.NewProcess(reg, "v1").Ready)
	level := zap.NewAtomicLevel()
	return adminRoutes(reg, level, ready, newGuard(&config.Config{}), func(*http.ServeMux, *guard) {}), ready, level
}

func TestReadyOnlyWhileClientsAreServed(t *testing.T) {
	h, ready, _ := routes(t)
	at := func(want int, text string) {
		t.Helper()
		if code, body := request(h, "GET", "/readyz", ""); code != want || !strings.Contains(body, text) {
			t.Errorf("/readyz is %d %q, want %d with %q", code, body, want, text)
		}
		// Not being ready is no reason to be killed.
		if code, _ := request(h, "GET", "/healthz", ""); code != http.StatusOK {
			t.Errorf("/healthz is %d", code)
		}
		gauge := "chronik_ready 0\n"
		if want == http.StatusOK {
			gauge = "chronik_ready 1\n"
		}
		if _, body := request(h, "GET", "/metrics", ""); !strings.Contains(body, gauge) && text != "disk" {
			t.Errorf("the metric does not say %q", gauge)
		}
	}
	at(http.StatusServiceUnavailable, "starting")
	ready.enter("")
	at(http.StatusOK, "ready")
	problem := ""
	ready.watch("directory /d", part{check: diagnose.CheckLogDir, severity: diagnose.Bad, problem: func() string { return problem }})
	at(http.StatusOK, "ready")
	problem = "disk full"
	at(http.StatusServiceUnavailable, "disk")
	problem = ""
	// What is degraded is said, and is no reason to send clients away.
	weak := ""
	ready.watch("disk of /d", part{check: diagnose.CheckSpace, severity: diagnose.Warn, problem: func() string { return weak }})
	at(http.StatusOK, "ready")
	weak = "80 MiB free"
	at(http.StatusOK, "ready\ndegraded: disk of /d: 80 MiB free\n")
	weak = ""
	ready.enter("draining")
	at(http.StatusServiceUnavailable, "draining")
}

func TestLogLevelCanBeChangedWhileRunning(t *testing.T) {
	h, _, level := routes(t)
	if code, body := request(h, "PUT", "/loglevel", `{"level":"debug"}`); code != http.StatusOK || level.Level() != zapcore.DebugLevel {
		t.Errorf("PUT: %d %s, level %v", code, body, level.Level())
	}
	if code, body := request(h, "GET", "/loglevel", ""); code != http.StatusOK || !strings.Contains(body, "debug") {
		t.Errorf("GET: %d %s", code, body)
	}
	if code, _ := request(h, "PUT", "/loglevel", `{"level":"loud"}`); code != http.StatusBadRequest || level.Level() != zapcore.DebugLevel {
		t.Errorf("a wrong level: %d, now %v", code, level.Level())
	}
	if code, _ := request(h, "PUT", "/loglevel", `{"level":"`+strings.Repeat("x", adminBody)+`"}`); code != http.StatusBadRequest {
		t.Errorf("a body beyond the bound: %d", code)
	}
}

func TestAdminPaths(t *testing.T) {
	h, _, _ := routes(t)
	for path, want := range map[string]string{"/metrics": "chronik_build_info{", "/debug/pprof/": "goroutine", "/": "/readyz",
		"/debug/pprof/goroutine?debug=1": "goroutine profile"} {
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

// The server ends with its listener and its goroutine (goleak looks).
func TestAdminStops(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	reg := metrics.NewRegistry()
	a := newAdmin(l, reg, zap.NewAtomicLevel(), newReadiness(metrics.NewProcess(reg, "v").Ready), newGuard(&config.Config{}),
		func(*http.ServeMux, *guard) {}, zap.NewNop())
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	client.CloseIdleConnections()
	a.stop(context.Background())
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("the port is still open")
	}
}

// Metrics and health are for everyone who reaches the port. The JSON and the log level are read under the
// broker's own names only; what changes or costs something is for its own machine, or for all with
// admin.remote, and never for a page of another site.
func TestAdminPortKeepsControlToItsMachine(t *testing.T) {
	reg := metrics.NewRegistry()
	cfg := &config.Config{AdminHosts: []string{"metrics.example.com"}, Listeners: []config.Listener{{Advertise: "broker.example.com:9092"}}}
	api := func(mux *http.ServeMux, g *guard) {
		ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]any{}, nil) })
		mux.Handle("GET /v1/health", g.named(ok))
		mux.Handle("POST /v1/findings", g.control(ok))
	}
	for _, remote := range []bool{false, true} {
		cfg.AdminRemote = remote
		h := adminRoutes(reg, zap.NewAtomicLevel(), newReadiness(metrics.NewProcess(metrics.NewRegistry(), "v").Ready), newGuard(cfg), api)
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
			{"localhost:9644", "127.0.0.1:5", "X-Forwarded-For: 10.0.0.2", 200, 403},
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
			for path, want := range map[string]int{"/metrics": 200, "/healthz": 200, "/readyz": 503, "/v1/health": c.read, "/loglevel": c.read, "/debug/pprof/cmdline": change} {
				if got := ask("GET", path, ""); got != want {
					t.Errorf("GET %s from %s at %s, %s, remote %v: %d, want %d", path, c.peer, c.host, c.header, remote, got, want)
				}
			}
			if got := ask("PUT", "/loglevel", `{"level":"info"}`); got != change {
				t.Errorf("PUT /loglevel from %s at %s, %s, remote %v: %d, want %d", c.peer, c.host, c.header, remote, got, change)
			}
			if got := ask("POST", "/v1/findings", ""); got != change {
				t.Errorf("POST /v1/findings from %s at %s, %s, remote %v: %d, want %d", c.peer, c.host, c.header, remote, got, change)
			}
		}
	}
}

// Profiles are taken by few at a time.
func TestFewTakeProfilesAtATime(t *testing.T) {
	g, free, busy := newGuard(&config.Config{}), make(chan struct{}), make(chan struct{})
	h := g.control(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { busy <- struct{}{}; <-free }))
	ended := make(chan int, adminCostly)
	for range adminCostly {
		go func() { code, _ := request(h, "GET", "/", ""); ended <- code }()
		<-busy
	}
	if code, body := request(h, "GET", "/", ""); code != http.StatusTooManyRequests {
		t.Errorf("%d %s", code, body)
	}
	close(free)
	for range adminCostly {
		if code := <-ended; code != http.StatusOK {
			t.Error(code)
		}
	}
}
