// Package admin is the broker's admin port: an HTTP server for metrics, health, the log level,
// profiles, and JSON about what Kafka's protocol does not carry.
//
// It shows what it is given in Options and changes nothing but the log level. Its JSON is promised
// in docs/admin.md. Access keeps away what has no business there, because the port has no
// authentication. The daemon starts it.
package admin

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/admin/page"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/logtail"
)

// Bounds of the server: it serves people and scrapers, not load.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	// writeTime bounds a request and its answer, so that a client that does not read what it asked
	// for keeps no slot; profiles and probes, which take longer, have it beyond their own time.
	writeTime  = 30 * time.Second
	probeTime  = time.Minute
	scrapeTime = 8 * time.Second // with turnTime not more than Prometheus waits by default
	stopTime   = 2 * time.Second // for which a stop waits for requests
	maxHeader  = 64 << 10        // bytes
	maxBody    = 64 << 10        // bytes
	maxScrapes = 4               // at a time
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
	Log   *zap.Logger
	// Tail holds the last lines of the broker's log, for GET /v1/log; nil for none.
	Tail *logtail.Tail

	page      *page.Page    // set by Start; without it / is the text index
	writeTime time.Duration // what tests have instead of writeTime
}

// Server is the running HTTP server, with the history that its page shows.
type Server struct {
	http    *http.Server
	conns   *connLimit
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Start serves on l until Stop is called. It owns l, also after an error.
func Start(l net.Listener, o Options) (*Server, error) {
	src, history := &source{o: o, started: time.Now()}, &page.History{}
	var err error
	if o.page, err = page.New(src, history); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	conns := newConnLimit(maxConnections)
	s := &Server{
		cancel: cancel, conns: conns,
		http: &http.Server{
			Handler:           Handler(o),
			ReadHeaderTimeout: headerTime,
			WriteTimeout:      cmp.Or(o.writeTime, writeTime),
			IdleTimeout:       idleTime,
			MaxHeaderBytes:    maxHeader,
			ConnState:         conns.changed,
			ErrorLog:          zap.NewStdLog(o.Log),
		},
	}
	s.running.Go(func() { history.Run(ctx, src.totals) })
	s.running.Go(func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("admin port closed: metrics and health are not served any more", zap.Error(err))
		}
	})
	return s, nil
}

// Stop ends the server. Requests that do not end within two seconds, or the context, are cut off: a
// broker does not stop later because of them.
func (s *Server) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	s.cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // cutting the last connections is all that is left to try
	}
	s.running.Wait()
}

// Handler serves every path of the admin port.
func Handler(o Options) http.Handler {
	if o.Tail == nil {
		o.Tail = new(logtail.Tail)
	}
	g := newGuard(o.Access)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", g.bounded(make(slots, maxScrapes), scrapeTime, promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{Registry: o.Registry})))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		report, status := o.Health.Report(r.Context()), http.StatusOK
		if !report.Ready {
			status = http.StatusServiceUnavailable
		}
		writeText(w, status, report.Text())
	})
	// GET answers {"level":"info"}; PUT accepts the same, or a form.
	mux.Handle("GET /loglevel", g.named(o.Level))
	mux.Handle("PUT /loglevel", g.own(http.MaxBytesHandler(prompt(o.Level), maxBody)))
	for path, profile := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.Handle("GET /debug/pprof/"+path, g.control(g.profiles, profile))
	}
	(&api{o}).register(mux, g)
	mountPage(mux, g, o.page)
	return mux
}

// prompt has a request's body read within the time of its header.
func prompt(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(headerTime)) // a test's recorder has none
		h.ServeHTTP(w, r)
	})
}

// mountPage adds the page's paths. Records are clients' data, and reading them costs: they are
// kept to this machine as profiles are. Requests for / that do not come from a browser get the
// text index.
func mountPage(mux *http.ServeMux, g *guard, p *page.Page) {
	if p == nil {
		mux.HandleFunc("GET /{$}", index)
		return
	}
	g.refused = p.Refused
	overview := g.reading(p.Overview())
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if page.Wanted(r) {
			overview.ServeHTTP(w, r)
			return
		}
		index(w, r)
	})
	for _, r := range p.Routes() {
		if r.Data {
			mux.Handle("GET "+r.Path, g.control(g.disks, r.Handler))
		} else {
			mux.Handle("GET "+r.Path, g.reading(r.Handler))
		}
	}
}

// index lists the paths as text.
func index(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, "chronikd: /metrics /healthz /readyz /v1/health /v1/logs /v1/dirs /v1/profiles /v1/connections /v1/log /loglevel /debug/pprof/\n")
}

func writeText(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // a client that went away needs no answer
}
