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

	"github.com/chronik-io/chronik/internal/diagnose"
	"github.com/chronik-io/chronik/internal/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func request(h http.Handler, method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func routes(t *testing.T) (http.Handler, *readiness, zap.AtomicLevel) {
	t.Helper()
	reg := metrics.NewRegistry()
	ready := newReadiness(metrics.NewProcess(reg, "v1").Ready)
	level := zap.NewAtomicLevel()
	return adminRoutes(reg, level, ready, func(*http.ServeMux) {}), ready, level
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
	a := newAdmin(l, reg, zap.NewAtomicLevel(), newReadiness(metrics.NewProcess(reg, "v").Ready), func(*http.ServeMux) {}, zap.NewNop())
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
