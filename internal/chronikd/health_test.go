package chronikd

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/admin"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/health/checks"
)

// A broker that is not ready reports why, in one line; it is alive nevertheless.
func TestHealthReportsWhyItIsNotReady(t *testing.T) {
	m := checks.Start(checks.Options{Log: zap.NewNop()})
	defer m.Stop(context.Background())
	s := httptest.NewServer(
		admin.Handler(admin.Options{Registry: prometheus.NewRegistry(), Level: zap.NewAtomicLevel(), Health: m, Log: zap.NewNop()}),
	)
	defer s.Close()
	at := strings.TrimPrefix(s.URL, "http://")
	check := func(want int, text string, args ...string) {
		t.Helper()
		code, out, errs := chronikd(t, nil, append([]string{"health", "--admin-listen", at}, args...)...)
		if code != want || out+errs != text {
			t.Errorf("%v: %d %q, want %d %q", args, code, out+errs, want, text)
		}
	}
	m.Enter("recovering logs")
	m.Progress("/d", "partitions read", 3, 7)
	check(exit.Failed, "chronikd: not ready: recovering logs; /d: partitions read: 3 of 7\n")
	check(exit.OK, "ok\n", "--live")
	m.Enter("")
	check(exit.OK, "ready\n")
}

// A response may have any size and any status.
func TestHealthReadsNoMoreThanItNeeds(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte(strings.Repeat("x", 1<<20)))
	}))
	defer s.Close()
	status, body, err := get(t.Context(), s.URL)
	if err != nil || status != http.StatusTeapot || len(body) != maxHealthBody {
		t.Errorf("%d, %d bytes, %v", status, len(body), err)
	}
}

func TestAnAddressThatIsListenedOnCanBeDialled(t *testing.T) {
	for listen, want := range map[string]string{":1": "127.0.0.1:1", "0.0.0.0:1": "127.0.0.1:1", "[::]:1": "[::1]:1",
		"10.0.0.1:1": "10.0.0.1:1", "localhost:1": "localhost:1", "[::1]:1": "[::1]:1"} {
		if got := dialable(listen); got != want {
			t.Errorf("dialable(%s) = %s, want %s", listen, got, want)
		}
	}
}

// The health check of an image asks without the file that sets TLS for its broker.
func TestHealthAsksAPortThatSpeaksTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte("ready\n"))
	}))
	defer s.Close()
	code, out, errs := chronikd(t, nil, "health", "--admin-listen", strings.TrimPrefix(s.URL, "https://"))
	if code != exit.OK || out != "ready\n" {
		t.Errorf("%d, %q, %q", code, out, errs)
	}
}
