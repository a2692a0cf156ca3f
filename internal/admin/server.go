// Package admin is the broker's admin port: an HTTP server for metrics, health, the log level,
// profiles, and JSON about state that Kafka's protocol does not cover.
//
// It shows the components in Options and changes nothing except the log level. docs/admin.md
// promises the form of its JSON. Access restricts requests. The daemon starts it. It does not know
// how the broker is built.
package admin

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/admin/page"
	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/logtail"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/share"
)

// Limits of the server: it is for people and scrapers, not for load.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	// writeTime bounds a request and its response, so that a client that does not read keeps no
	// slot. Profiles and probes take longer and have it in addition to their own time.
	writeTime  = 30 * time.Second
	probeTime  = time.Minute
	scrapeTime = 8 * time.Second // together with turnTime at most Prometheus's default timeout
	stopTime   = 2 * time.Second // how long a stop waits for requests
	maxHeader  = 64 << 10        // bytes
	maxBody    = 64 << 10        // bytes
	maxScrapes = 4               // concurrent
)

// Health is the part of the broker's health monitor that the port uses.
type Health interface {
	// Report runs the checks and returns the result; it waits a second at most.
	Report(context.Context) *health.Report
	// Phase returns what the broker does instead of serving clients, or "" while it serves them.
	Phase() string
}

// Options hold what the port shows.
type Options struct {
	Access Access
	// TLS, if set, returns the configuration for each handshake.
	TLS func() *tls.Config
	// Places are where handshakes compute; default: places of its own.
	Places *share.Places
	// Batches are where the page of records inflates; default: it takes no place.
	Batches *share.Places
	// Memory is how many bytes of memory the broker may use, 0 if that is not known.
	Memory   int64
	Registry *prometheus.Registry
	Level    zap.AtomicLevel
	Health   Health
	// View returns the state of a broker that serves clients; it is not called before.
	View func() *View
	// Probe measures the disks of journals for POST /v1/health.
	Probe func(context.Context) error
	Log   *zap.Logger
	// Audit returns the audit log, nil while there is none. It may be nil.
	Audit func() *audit.Log
	// Tail holds the last lines of the broker's log, for GET /v1/log; nil for none.
	Tail *logtail.Tail

	page *page.Page // set by Start; without it / serves the text index
	// headerTime and writeTime, if set, replace the constants in tests.
	headerTime, writeTime time.Duration
}

// Server is the running HTTP server, with the history that its page shows.
type Server struct {
	http    *http.Server
	conns   *connLimit
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Start serves on l until Stop is called. It owns l.
func Start(l net.Listener, o Options) *Server {
	src, history := &source{o: o, started: time.Now()}, &page.History{}
	o.page = page.New(src, history)
	ctx, cancel := context.WithCancel(context.Background())
	conns := newConnLimit(maxConnections)
	s := &Server{
		cancel: cancel, conns: conns,
		http: &http.Server{
			Handler:           conns.handler(promptBody(Handler(o), cmp.Or(o.headerTime, headerTime))),
			ReadHeaderTimeout: cmp.Or(o.headerTime, headerTime),
			WriteTimeout:      cmp.Or(o.writeTime, writeTime),
			IdleTimeout:       idleTime,
			MaxHeaderBytes:    maxHeader,
			ConnContext:       withConn,
			ConnState:         conns.changed,
			ErrorLog:          zap.NewStdLog(o.Log),
		},
	}
	if o.TLS != nil {
		l = s.secure(l, &o, cmp.Or(o.headerTime, headerTime))
	}
	s.running.Go(func() { history.Run(ctx, src.totals) })
	s.running.Go(func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("admin port closed: metrics and health are no longer served; restart the broker", zap.Error(err))
		}
	})
	return s
}

// Stop ends the server. It cuts off requests that have not ended after two seconds or when ctx
// ends, so that they do not delay the stop of the broker.
func (s *Server) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	s.cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // nothing else can be done about the last connections
	}
	s.running.Wait()
}

// Handler serves every path of the admin port.
func Handler(o Options) http.Handler {
	if o.Tail == nil {
		o.Tail = new(logtail.Tail)
	}
	g := newGuard(o.Access, o.Memory)
	if o.Audit != nil {
		g.audit = o.Audit
	}
	mux := &paths{mux: http.NewServeMux()}
	process := metrics.OfProcess()
	scraped := promhttp.HandlerFor(prometheus.Gatherers{process, o.Registry}, promhttp.HandlerOpts{Registry: process})
	mux.Handle("GET /metrics", g.bounded(newSlots(maxScrapes), scrapeTime, inTurn(scraped)))
	mux.Handle("GET /healthz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") }))
	replicas := new(pause.Seldom[int])
	mux.Handle("GET /readyz", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.readyz(w, r, g.mayRead(r), replicas) }))
	// GET returns {"level":"info"}; PUT accepts the same, or a form.
	mux.Handle("GET /loglevel", o.Level)
	mux.Handle("PUT /loglevel", g.fromThisMachine(http.MaxBytesHandler(o.Level, maxBody)))
	mux.Handle("GET "+profilesPath, g.control(g.profiles, http.HandlerFunc(goProfiles)))
	(&jsonAPI{o}).register(mux, g)
	mountPage(mux.mux, g, o.page, mux.index)
	return g.door(mux.mux)
}

// inTurn has h respond to one request at a time. A scrape takes several times the memory of its
// text while it is made, and those that wait for one that hangs would hang as well.
func inTurn(h http.Handler) http.Handler {
	turn := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turn <- struct{}{}:
		case <-r.Context().Done(): // a client that has closed its side may still read
			http.Error(w, "the request ended while it waited for other scrapes", http.StatusServiceUnavailable)
			return
		}
		defer func() { <-turn }()
		h.ServeHTTP(w, r)
	})
}

// promptBody sets a read deadline for request bodies. Before the server sends a large response it
// reads the body, also if the handler does not: without a deadline, a body that never arrives would
// block it forever. A request without a body gets no deadline, because that would cancel its
// context.
func promptBody(h http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // the recorder of a test has none
		}
		h.ServeHTTP(w, r)
	})
}

// mountPage adds the page's paths. Records are clients' data and expensive to read, so they are
// restricted to this machine, as profiles are. Requests for / that do not come from a browser get
// the text index.
func mountPage(mux *http.ServeMux, g *guard, p *page.Page, index http.HandlerFunc) {
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
			mux.Handle("GET "+r.Path, g.fromThisMachine(g.bounded(g.disks, answerTime, g.audited(r.Handler))))
		} else {
			mux.Handle("GET "+r.Path, g.reading(r.Handler))
		}
	}
}

// paths registers handlers, and lists their paths.
type paths struct {
	mux *http.ServeMux
	all []string
}

// Handle registers a handler for a pattern: a method, a space and a path.
func (p *paths) Handle(pattern string, h http.Handler) {
	p.mux.Handle(pattern, h)
	_, path, _ := strings.Cut(pattern, " ")
	p.all = append(p.all, path)
}

// index lists the paths as text. One that ends in a slash stands for those below it.
func (p *paths) index(w http.ResponseWriter, _ *http.Request) {
	var listed []string
	last := "-"
	for _, path := range slices.Compact(slices.Sorted(slices.Values(p.all))) {
		if !strings.HasSuffix(last, "/") || !strings.HasPrefix(path, last) {
			listed, last = append(listed, path), path
		}
	}
	writeText(w, http.StatusOK, "chronikd: "+strings.Join(listed, " ")+"\n")
}

func writeText(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // a client that has gone needs no response
}
