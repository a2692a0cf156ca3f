// Package admin is the broker's admin port: an HTTP server for metrics, health, the log level,
// profiles, and JSON about what Kafka's protocol does not carry.
//
// It shows what it is given in Options and changes nothing but the log level. Its JSON is promised
// in docs/admin.md. Access keeps away what has no business there, because the port has no
// authentication. The daemon starts it.
package admin

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

	"github.com/chronik-io/chronik/internal/health"
)

// Bounds of the server: it serves people and scrapers, not load.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	maxHeader  = 64 << 10 // bytes
	maxBody    = 64 << 10 // bytes
	maxScrapes = 4        // at a time
)

// Health is what the port needs of the broker's health monitor.
type Health interface {
	// Report runs the checks and returns what is known then; it waits a second at most.
	Report(context.Context) *health.Report
	// Phase returns what the broker does instead of serving clients, empty while it serves them.
	Phase() string
}

// Options are what the port shows.
type Options struct {
	Access   Access
	Registry *prometheus.Registry
	Level    zap.AtomicLevel
	Health   Health
	// View returns what a broker that serves clients shows; it is not called before.
	View func() *View
	// Probe measures the disks of journals for POST /v1/health.
	Probe func(context.Context) error
	// Page, if set, is the HTML page: it gets GET requests for / and for every path that the port
	// does not have itself. A request that does not accept text/html gets the text index.
	Page http.Handler
	Log  *zap.Logger
}

// Server is the running HTTP server.
type Server struct {
	http *http.Server
	done chan struct{} // closed when Serve returned
}

// Start serves on l until Stop is called. It owns l.
func Start(l net.Listener, o Options) *Server {
	s := &Server{
		http: &http.Server{
			Handler:           Handler(o),
			ReadHeaderTimeout: headerTime,
			IdleTimeout:       idleTime,
			MaxHeaderBytes:    maxHeader,
			ErrorLog:          zap.NewStdLog(o.Log),
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("admin port closed: metrics and health are not served any more", zap.Error(err))
		}
	}()
	return s
}

// Stop ends the server. Requests that do not end within the context are cut off.
func (s *Server) Stop(ctx context.Context) {
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // cutting the last connections is all that is left to try
	}
	<-s.done
}

// Handler serves every path of the admin port.
func Handler(o Options) http.Handler {
	g := newGuard(o.Access)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Registry: o.Registry}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		report, status := o.Health.Report(r.Context()), http.StatusOK
		if !report.Ready {
			status = http.StatusServiceUnavailable
		}
		text(w, status, report.Text())
	})
	// GET answers {"level":"info"}; PUT accepts the same, or a form.
	mux.Handle("GET /loglevel", g.named(o.Level))
	mux.Handle("PUT /loglevel", g.control(http.MaxBytesHandler(o.Level, maxBody)))
	for path, profile := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.Handle("GET /debug/pprof/"+path, g.control(profile))
	}
	(&api{o}).register(mux, g)
	if o.Page != nil {
		mux.Handle("GET /", g.named(o.Page))
	} else {
		mux.HandleFunc("GET /{$}", Index)
	}
	return mux
}

// Index lists the paths as text.
func Index(w http.ResponseWriter, _ *http.Request) {
	text(w, http.StatusOK, "chronikd: /metrics /healthz /readyz /v1/health /v1/logs /v1/dirs /v1/profiles /loglevel /debug/pprof/\n")
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // a client that went away needs no answer
}
