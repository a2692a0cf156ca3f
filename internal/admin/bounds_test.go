package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// served starts a port, with a client that ends with the test.
func served(t *testing.T, o Options) (s *Server, address string, get func(path string) (int, error)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	s = Start(small{l}, o)
	t.Cleanup(func() { s.Stop(context.Background()) })
	// 10 MiB take seconds to compress on a busy machine, which writeTime does not allow.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	return s, l.Addr().String(), func(path string) (int, error) {
		resp, err := client.Get("http://" + l.Addr().String() + path)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, err
	}
}

// small is a listener whose kernel holds as little of a response as it would over a network.
type small struct{ net.Listener }

func (l small) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Clients that do not read the metrics that they requested do not keep others from reading them.
func TestClientsThatDoNotReadAreCutOff(t *testing.T) {
	o, _ := options()
	o.writeTime = 5 * time.Second
	large := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "large"}, []string{"text"})
	for i := range 500 {
		large.WithLabelValues(strings.Repeat("x", 20<<10+i))
	}
	o.Registry.MustRegister(large)
	s, address, get := served(t, o)
	for range 2 * maxScrapes {
		c := dial(t, address)
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		_, _ = c.Read(make([]byte, 1)) // a busy machine may have cut it off already
	}
	eventually(t, "the metrics are served", func() bool { code, _ := get("/metrics"); return code == http.StatusOK })
	eventually(t, "they are cut off", func() bool {
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		return len(s.conns.open) == s.conns.waiting.Len()
	})
}

// patience bounds how long a test waits for an event, even on a busy machine.
const patience = 2 * time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("never: %s", what)
		}
	}
}

// Connections without a request use no more descriptors than the port may have.
func TestConnectionsAreBounded(t *testing.T) {
	o, _ := options()
	o.headerTime = time.Hour // it would close the oldest connection in any case
	_, address, get := served(t, o)
	var first net.Conn
	for i := range maxConnections + 20 {
		if c := dial(t, address); i == 0 {
			first = c
		}
	}
	if code, err := get("/healthz"); code != http.StatusOK {
		t.Errorf("%d, %v", code, err)
	}
	must.OK(t, first.SetReadDeadline(time.Now().Add(patience)))
	if _, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest connection is still open: %v", err)
	}
}

// Requests whose headers or bodies never arrive, and responses that are never read, do not keep an
// operator from the port.
func TestSlowRequestsKeepNoOperatorOut(t *testing.T) {
	for name, request := range map[string]string{
		"responses": "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"headers":   "GET /readyz HTTP/1.1\r\nHost: loc",
		"bodies":    "GET /readyz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			o, is := options()
			is.is.Progress = []string{strings.Repeat("x", 200<<10)}
			broker := &counting{Health: o.Health}
			o.Health, o.writeTime = broker, time.Hour
			_, address, get := served(t, o)
			for range maxConnections {
				c := dial(t, address)
				must.OK(t, c.(*net.TCPConn).SetReadBuffer(4<<10))
				if _, err := io.WriteString(c, request); err != nil {
					t.Fatal(err)
				}
			}
			if name != "headers" {
				eventually(t, "all requests have been read", func() bool { return broker.reports.Load() == maxConnections })
			}
			eventually(t, "the operator's request is answered", func() bool { code, _ := get("/healthz"); return code == http.StatusOK })
		})
	}
}

// counting is a Health that counts its reports.
type counting struct {
	Health
	reports atomic.Int64
}

func (c *counting) Report(ctx context.Context) *health.Report {
	c.reports.Add(1)
	return c.Health.Report(ctx)
}

// The server does not wait forever for a body that never arrives.
func TestABodyHasADeadline(t *testing.T) {
	o, _ := options()
	o.headerTime = 50 * time.Millisecond
	_, address, _ := served(t, o)
	c := dial(t, address)
	if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	must.OK(t, c.SetReadDeadline(time.Now().Add(patience)))
	if text, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200 ") {
		t.Errorf("%q, %v", text, err)
	}
}

// hung is a Health whose reports never return.
type hung struct {
	fixed
	entered chan struct{}
	free    chan struct{}
}

func (h *hung) Report(ctx context.Context) *health.Report {
	h.entered <- struct{}{}
	<-h.free
	return h.fixed.Report(ctx)
}

// A request that hangs does not prevent the broker from stopping.
func TestAStopDoesNotWaitForARequestThatHangs(t *testing.T) {
	o, _ := options()
	h := &hung{fixed: fixed{health.Report{Phase: "starting"}}, entered: make(chan struct{}), free: make(chan struct{})}
	o.Health = h
	s, _, get := served(t, o)
	answered, stopped := make(chan struct{}), make(chan struct{})
	go func() { defer close(answered); _, _ = get("/readyz") }()
	<-h.entered
	go func() { s.Stop(context.Background()); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Error("the stop waits")
	}
	close(h.free)
	<-answered
}

// Requests that read the broker's state get a response although a disk or a lock hangs, and no more
// of them are abandoned than may run at a time.
func TestARequestThatHangsIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, free := newGuard(Access{}, 0), make(chan struct{})
		var running atomic.Int32
		h := g.reading(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			running.Add(1)
			<-free
			writeText(w, http.StatusTeapot, "late")
		}))
		codes := make(chan int)
		for range 3 * maxReads {
			go func() { code, _ := request(h, "GET", "/", ""); codes <- code }()
		}
		seen := map[int]int{}
		for range 3 * maxReads {
			seen[<-codes]++
		}
		const most = maxReads / 2 // of one address
		if seen[http.StatusServiceUnavailable] != most || seen[http.StatusTooManyRequests] != 3*maxReads-most || running.Load() != most {
			t.Errorf("%v, %d run", seen, running.Load())
		}
		close(free)
		synctest.Wait()
		if code, body := request(h, "GET", "/", ""); code != http.StatusTeapot || body != "late" {
			t.Errorf("%d %q", code, body)
		}
	})
}

// A panic of a handler reaches the server, which logs it.
func TestAPanicReachesTheServer(t *testing.T) {
	g := newGuard(Access{}, 0)
	defer func() {
		if recover() != "x" {
			t.Error("no panic")
		}
		if g.reads.Stats().Used > 0 {
			t.Error("the request keeps its slot")
		}
	}()
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = "localhost"
	g.reading(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("x") })).ServeHTTP(httptest.NewRecorder(), r)
}

// When a disk hangs, profiles show which goroutines wait for it.
func TestProfilesWorkWhenADiskHangs(t *testing.T) {
	o, broker := options()
	broker.is.Phase = ""
	entered, free := make(chan struct{}), make(chan struct{})
	o.Probe = func(context.Context) error { entered <- struct{}{}; <-free; return nil }
	h := Handler(o)
	ended := make(chan int, maxCostly)
	for range maxCostly / 2 {
		go func() { code, _ := request(h, "POST", "/v1/health", ""); ended <- code }()
		<-entered
	}
	if code, _ := request(h, "POST", "/v1/health", ""); code != http.StatusTooManyRequests {
		t.Errorf("a third one: %d", code)
	}
	if code, body := request(h, "GET", "/debug/pprof/cmdline", ""); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	close(free)
	for range maxCostly / 2 {
		if code := <-ended; code != http.StatusOK {
			t.Error(code)
		}
	}
}

// unreadBy is a client that does not read its response until the test lets it.
type unreadBy struct {
	*httptest.ResponseRecorder
	entered, free chan struct{}
}

func (w *unreadBy) Write(b []byte) (int, error) {
	select {
	case w.entered <- struct{}{}:
	case <-w.free: // a further part of the response
	}
	<-w.free
	return len(b), nil
}

// The memory of responses that clients have not read is bounded; a larger response is sent alone.
func TestUnreadAnswersAreBounded(t *testing.T) { synctest.Test(t, unreadAnswersAreBounded) }

func unreadAnswersAreBounded(t *testing.T) {
	const memory = 64 << 20
	g := newGuard(Access{}, memory)
	h := g.reading(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := memory/unreadShare + 1
		if r.URL.Path == "/small" {
			n = 1
		}
		_, _ = w.Write(make([]byte, n))
	}))
	slow := &unreadBy{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = "localhost"
		h.ServeHTTP(slow, r)
	}()
	<-slow.entered
	if code, _ := request(h, "GET", "/small", ""); code != http.StatusServiceUnavailable {
		t.Errorf("%d", code)
	}
	close(slow.free)
	<-ended
	for _, path := range []string{"/small", "/"} {
		if code, _ := request(h, "GET", path, ""); code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// Every response that may be large counts among those that clients have not read.
func TestEveryLargeResponseIsCounted(t *testing.T) {
	o, _ := options()
	o.Memory = 1
	h := Handler(o)
	slow := &unreadBy{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host = "localhost"
		h.ServeHTTP(slow, r)
	}()
	<-slow.entered
	for _, path := range []string{"/metrics", "/v1/health", "/v1/log", "/v1/logs", "/v1/connections"} {
		if code, body := request(h, "GET", path, ""); code != http.StatusServiceUnavailable || !strings.Contains(body, "not read") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	close(slow.free)
	<-ended
}
