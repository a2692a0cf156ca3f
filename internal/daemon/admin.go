package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// Bounds of the admin server: it serves people and scrapers, not load.
const (
	adminHeaderTime = 10 * time.Second
	adminIdleTime   = 2 * time.Minute
	adminHeader     = 64 << 10 // bytes
	adminBody       = 64 << 10 // bytes
	adminScrapes    = 4        // at a time
)

// admin is the HTTP server of metrics, health, log level and profiles. It has
// no authentication: it belongs on loopback or a private network, and guard keeps
// what changes or costs something to this machine.
type admin struct {
	server *http.Server
	done   chan struct{} // closed when serve returned
}

// newAdmin serves on l until stop is called. It owns l.
func newAdmin(l net.Listener, reg *prometheus.Registry, level zap.AtomicLevel, ready *readiness, g *guard, more func(*http.ServeMux, *guard), log *zap.Logger) *admin {
	a := &admin{
		server: &http.Server{
			Handler:           adminRoutes(reg, level, ready, g, more),
			ReadHeaderTimeout: adminHeaderTime,
			IdleTimeout:       adminIdleTime,
			MaxHeaderBytes:    adminHeader,
			ErrorLog:          zap.NewStdLog(log),
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(a.done)
		if err := a.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the admin port is closed: metrics and health are not served any more", zap.Error(err))
		}
	}()
	return a
}

// stop ends the server. Requests that do not end within the context are cut.
func (a *admin) stop(ctx context.Context) {
	if a.server.Shutdown(ctx) != nil {
		_ = a.server.Close() // cutting the last connections is all that is left to try
	}
	<-a.done
}

// adminRoutes is every path of the admin port; more adds those that ask the rooms.
func adminRoutes(reg *prometheus.Registry, level zap.AtomicLevel, ready *readiness, g *guard, more func(*http.ServeMux, *guard)) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: adminScrapes, Registry: reg}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		report, ok := ready.report()
		if !ok {
			text(w, http.StatusServiceUnavailable, report)
			return
		}
		text(w, http.StatusOK, report)
	})
	// GET answers {"level":"info"}; PUT takes the same, or a form.
	mux.Handle("GET /loglevel", g.named(level))
	mux.Handle("PUT /loglevel", g.control(http.MaxBytesHandler(level, adminBody)))
	for path, profile := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.Handle("GET /debug/pprof/"+path, g.control(profile))
	}
	more(mux, g)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "chronikd: /metrics /healthz /readyz /v1/health /v1/findings /v1/logs /v1/dirs /v1/profiles /loglevel /debug/pprof/\n")
	})
	return mux
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // a client that went away needs no answer
}
